"""``python -m tests.bench``: ratios against peers run in the same breath, on loopback."""

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

from gpumesh.sim.engines import ENGINES
from tests.bench.crowd import measure_crowd
from tests.bench.experiments import Row, measure_detection, measure_honesty, measure_rest
from tests.bench.fleet import BenchError, running
from tests.bench.makes import Make, makes
from tests.bench.report import document, table
from tests.bench.traffic import measure_traffic

EXPERIMENTS = ("idle", "detection", "honesty", "bytes", "crowd")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "experiments", nargs="*", metavar="EXPERIMENT", help=f"of {', '.join(EXPERIMENTS)}; default: all"
    )
    parser.add_argument(
        "--hosts", type=int, default=32, metavar="N", help="processes a make, 3 to 128 (default 32)"
    )
    parser.add_argument(
        "--rounds", type=int, default=5, metavar="K", help="processes ended each way (default 5)"
    )
    parser.add_argument("--rest", type=float, default=60.0, metavar="S", help="how long to measure at rest")
    parser.add_argument("--starve", type=float, default=120.0, metavar="S", help="how long to starve")
    parser.add_argument("--settle", type=float, default=60.0, metavar="S", help="quiet time before measuring")
    parser.add_argument("--peers", default="serf,kinship", help="peers to run beside gpumesh")
    parser.add_argument(
        "--sizes", default="32,128,1024", help="fleets simulated for bytes; 4096 takes half an hour and 12 GB"
    )
    parser.add_argument("--engine", choices=ENGINES, default="swim", help="what the simulated fleets run")
    parser.add_argument("--crowd", type=int, default=10_000, metavar="N", help="hosts of the crowd")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if unknown := set(options.experiments) - set(EXPERIMENTS):
        parser.error(f"unknown experiment {', '.join(sorted(unknown))}; there are {', '.join(EXPERIMENTS)}")
    if not 3 <= options.hosts <= 128:
        parser.error("--hosts must be 3 to 128")
    if not 1 <= options.rounds <= (options.hosts - 1) // 2:
        parser.error("--rounds: at least two processes must be left")
    return options


def _measure(options: argparse.Namespace, found: list[Make], directory: Path) -> list[Row]:
    wanted = options.experiments or EXPERIMENTS
    rows: list[Row] = []
    if "idle" in wanted or "detection" in wanted:
        with running(found, options.hosts, directory, options.settle) as fleets:
            if "idle" in wanted:
                rows += measure_rest(fleets, options.rest)
            if "detection" in wanted:
                rows += measure_detection(fleets, options.rounds, "kill")
                rows += measure_detection(fleets, options.rounds, "vanish")
    if "honesty" in wanted:
        number = max(8, min(128, 2 * options.hosts))
        with running(found, number, directory, options.settle) as fleets:
            rows += measure_honesty(fleets, number // 4, options.starve)
    if "bytes" in wanted:
        rows += measure_traffic(tuple(int(size) for size in options.sizes.split(",")), options.engine)
    if "crowd" in wanted:
        rows += measure_crowd(options.crowd, options.rest, directory)
    return rows


def main() -> int:
    """Run what was asked for and print one table; 0: all was measured, 1: something was not."""
    options = _arguments()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    cache = Path(__file__).resolve().parents[2] / ".cache"
    found, missing = makes(("gpumesh", *filter(None, options.peers.split(","))), cache)
    for reason in missing:
        print(reason, file=sys.stderr)
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="gpumesh-bench-") as directory:
        try:
            rows = _measure(options, found, Path(directory))
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
