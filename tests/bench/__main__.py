"""``python -m tests.bench``: ratios against peers run in the same breath, on loopback."""

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

from gpumesh.sim.engines import ENGINES
from tests.bench.crowd import measure_crowd
from tests.bench.experiments import STARVED_SHARE, measure_detection, measure_honesty, measure_scale
from tests.bench.fleet import BenchError, running
from tests.bench.flood import measure_flood
from tests.bench.makes import Gpumesh, Make, makes
from tests.bench.report import document, table
from tests.bench.rest import measure_rest
from tests.bench.row import Row
from tests.bench.simulated import measure_late_reads, measure_lifeguard
from tests.bench.traffic import measure_traffic

EXPERIMENTS = {
    "idle": "CPU and memory while nothing happens",
    "detection": "processes killed, and stopped, one by one, beside the peers",
    "scale": "killed in a fleet of 32, then in one of 128 (--scale)",
    "honesty": "a quarter of the processes starved: stopped 8 s, run 0.05 s; who else is failed?",
    "lifeguard": "Lifeguard's interval and threshold experiments, simulated, beside its rules and SWIM's",
    "late_reads": "hosts that read their packets 0.5 to 2.5 s late, simulated, beside the same rules",
    "bytes": "what a host sends at rest in fleets of growing size, simulated",
    "crowd": "one daemon in a fleet of thousands",
    "flood": "one daemon under all the rubbish datagrams that a process can send",
}
BESIDE_PEERS = frozenset({"idle", "detection", "honesty"})
NUM_HOSTS, NUM_HONEST_HOSTS, MOST_HOSTS = 32, 64, 128


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description=__doc__,
        epilog="experiments:\n" + "\n".join(f"  {name:<11}{does}" for name, does in EXPERIMENTS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="see below; default: all")
    _add_real(parser)
    _add_simulated(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(words)
    if unknown := set(options.experiments) - EXPERIMENTS.keys():
        parser.error(f"unknown experiment {', '.join(sorted(unknown))}; there are {', '.join(EXPERIMENTS)}")
    if options.hosts is not None and not 3 <= options.hosts <= MOST_HOSTS:
        parser.error(f"--hosts must be 3 to {MOST_HOSTS}")
    options.experiments = options.experiments or list(EXPERIMENTS)
    if "honesty" in options.experiments and (options.hosts or NUM_HONEST_HOSTS) < 2 * STARVED_SHARE:
        parser.error(f"--hosts: honesty starves one in {STARVED_SHARE}, of at least {2 * STARVED_SHARE}")
    fleets = [options.hosts or NUM_HOSTS] if "detection" in options.experiments else []
    fleets += options.scale if "scale" in options.experiments else []
    if options.rounds < 1 or any(not 2 * options.rounds < number <= MOST_HOSTS for number in fleets):
        parser.error(
            f"--rounds, --scale: fewer than half of the processes can be ended, of {MOST_HOSTS} at most"
        )
    return options


def _add_real(parser: argparse.ArgumentParser) -> None:
    """Add what is asked of real processes."""
    parser.add_argument(
        "--hosts",
        type=int,
        metavar="N",
        help=f"processes of each make, 3 to {MOST_HOSTS} (default {NUM_HOSTS}; honesty {NUM_HONEST_HOSTS}, "
        f"where one in {STARVED_SHARE} of them is starved: 16 of 64)",
    )
    parser.add_argument(
        "--rounds", type=int, default=5, metavar="K", help="processes ended each way (default 5)"
    )
    parser.add_argument(
        "--scale", type=_sizes, default=(32, 128), metavar="N,N", help="fleets of scale (default 32,128)"
    )
    parser.add_argument("--rest", type=float, default=60.0, metavar="S", help="how long to measure at rest")
    parser.add_argument("--starve", type=float, default=120.0, metavar="S", help="how long to starve")
    parser.add_argument("--settle", type=float, default=60.0, metavar="S", help="quiet time before measuring")
    parser.add_argument("--peers", default="serf,kinship", help="peers to run beside gpumesh")
    parser.add_argument("--crowd", type=int, default=10_000, metavar="N", help="hosts of the crowd")


def _add_simulated(parser: argparse.ArgumentParser) -> None:
    """Add what is asked of simulated fleets."""
    parser.add_argument(
        "--sizes",
        type=_sizes,
        default=(32, 128, 1024),
        metavar="N,…",
        help="fleets of bytes; 4096, which takes half an hour and 12 GB, is not in the default",
    )
    parser.add_argument("--engine", choices=ENGINES, default="swim", help="what the fleets of bytes run")
    parser.add_argument(
        "--sample",
        type=int,
        default=8,
        metavar="K",
        help="points of Lifeguard's grid (default 8; 0: all 432)",
    )
    parser.add_argument(
        "--late-runs", type=int, default=60, metavar="K", help="runs of late_reads (default 60)"
    )
    parser.add_argument("--seed", type=int, default=4, metavar="N", help="of lifeguard and late_reads")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="simulations at a time")


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split(","))


def _measure(options: argparse.Namespace, found: list[Make], directory: Path) -> list[Row]:
    wanted = options.experiments
    rows: list[Row] = []
    if "idle" in wanted or "detection" in wanted:
        with running(found, options.hosts or NUM_HOSTS, directory, options.settle) as fleets:
            if "idle" in wanted:
                rows += measure_rest(fleets, options.rest)
            if "detection" in wanted:
                rows += measure_detection(fleets, options.rounds, "kill")
                rows += measure_detection(fleets, options.rounds, "vanish")
    if "scale" in wanted:
        rows += measure_scale(Gpumesh(), options.scale, options.rounds, options.settle, directory)
    if "honesty" in wanted:
        with running(found, options.hosts or NUM_HONEST_HOSTS, directory, options.settle) as fleets:
            rows += measure_honesty(fleets, options.starve)
    if "crowd" in wanted:
        rows += measure_crowd(options.crowd, options.rest, directory)
    if "flood" in wanted:
        rows += measure_flood(options.settle, directory)
    return rows


def _simulate(options: argparse.Namespace) -> list[Row]:
    wanted = options.experiments
    rows: list[Row] = []
    if "lifeguard" in wanted:
        rows += measure_lifeguard(options.sample, options.seed, options.processes)
    if "late_reads" in wanted:
        rows += measure_late_reads(options.late_runs, options.seed, options.processes)
    if "bytes" in wanted:
        rows += measure_traffic(options.sizes, options.engine)
    return rows


def main(words: list[str] | None = None) -> int:
    """Run what was asked for and print one table; 0: all was measured, 1: something was not."""
    options = _arguments(words)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    cache = Path(__file__).resolve().parents[2] / ".cache"
    peers = options.peers.split(",") if BESIDE_PEERS.intersection(options.experiments) else ()
    found, missing = makes(("gpumesh", *filter(None, peers)), cache)
    for reason in missing:
        print(reason, file=sys.stderr)
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="gpumesh-bench-") as directory:
        try:
            rows = _measure(options, found, Path(directory)) + _simulate(options)
        except BenchError as error:
            print(error, file=sys.stderr)
            return 1
    load = f"{load_before:.1f} before, {os.getloadavg()[0]:.1f} after"
    print(document(rows, load=load, cpus=os.cpu_count()) if options.json else table(rows))
    if not options.json:
        print(f"load average {load}, {os.cpu_count()} processors")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
