"""Lifeguard's experiments (arXiv 1707.00788, section V) over its grid, for three sets of rules side by side.

Run as ``python -m gpumesh.sim.experiments``; ``--sample`` takes a random part of the grid. How members block
stands in :mod:`gpumesh.sim.lifeguard`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from random import Random
from typing import TYPE_CHECKING, Final

from gpumesh.model import Reachability
from gpumesh.sim.engines import builder_for, parameters_for
from gpumesh.sim.lifeguard import BLOCKS, interval, threshold
from gpumesh.sim.measures import percentile
from gpumesh.sim.rules import RULES as DIFFERENCES
from gpumesh.sim.watch import Watch
from gpumesh.sim.world import World
from gpumesh.swim.parameters import Parameters
from gpumesh.swim.ports import MemberChanged, SwimEvent

if TYPE_CHECKING:
    from gpumesh.sim.host import SimHost

RULES: Final[Mapping[str, Parameters]] = {
    name: parameters_for("lan", differences) for name, differences in DIFFERENCES.items()
}
"""The parameters of each set of rules."""
MEMBERS: Final = (1, 4, 8, 12, 16, 20, 24, 28, 32)
BLOCKED_S: Final = (0.128, 0.512, 2.048, 8.192, 16.384, 32.768)
FREE_S: Final = (0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 4.096, 16.384)
INTERVAL: Final = True
THRESHOLD: Final = False
DETECTABLE_S: Final = 32.768
"""Threshold runs block this long: longer than any of the rules takes to a verdict."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of one experiment under one set of rules; the same trial gives the same outcome."""

    rules: str
    is_interval: bool
    num_members: int
    blocked_s: float
    free_s: float
    seed: int
    num_hosts: int = 128
    duration_s: float = 120.0
    block: str = "process"

    @property
    def command(self) -> str:
        """The command that runs this trial again."""
        kind = "interval" if self.is_interval else "threshold"
        return (
            f"python -m gpumesh.sim.experiments --rules {self.rules} --hosts {self.num_hosts} "
            f"--duration {self.duration_s!r} --block {self.block} --seed {self.seed} "
            f"--point {kind}:{self.num_members}:{self.blocked_s!r}:{self.free_s!r}"
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trial."""

    trial: Trial
    num_false: int
    """Failures declared of members that were not blocked (the paper's FP)."""
    num_false_at_healthy: int
    """Those declared at members that were not blocked either (FP at healthy)."""
    first_s: tuple[float, ...]
    """Per blocked member that was failed: seconds from the block to the first healthy member that knew."""
    all_s: tuple[float, ...]
    """Per blocked member that all healthy ones failed: seconds to the last."""
    num_datagrams: int


@dataclass(slots=True)
class _Tally(Watch):
    """Counts verdicts by who is blocked."""

    false: int = 0
    false_at_healthy: int = 0
    seen: dict[int, dict[int, float]] = field(default_factory=dict)

    def handle_change(self, world: World, host: SimHost, change: SwimEvent) -> None:
        """Count one verdict."""
        if not isinstance(change, MemberChanged) or change.after is not Reachability.FAILED:
            return
        life = world.truth.life(change.host_id, change.epoch)
        if life is None:
            return
        is_healthy = not world.truth.is_impaired(host.number, world.now)
        since = world.truth.impaired_since(life.number)
        if since is None:
            self.false += 1
            self.false_at_healthy += is_healthy
        elif is_healthy:
            self.seen.setdefault(life.number, {}).setdefault(host.number, world.now - since)


def run_trial(trial: Trial) -> Outcome:
    """Run one trial to its end."""
    rules = DIFFERENCES[trial.rules]
    tally = _Tally()
    world = World(
        seed=trial.seed,
        num_hosts=trial.num_hosts,
        build=builder_for("swim", "lan", rules),
        watches=(tally,),
    )
    settings = {"members": trial.num_members, "blocked_s": trial.blocked_s, "free_s": trial.free_s}
    # Rules that do not weigh evidence stand for programs whose timers are threads of their own.
    is_threaded = not rules.get("weighs_evidence", True)
    if trial.is_interval:
        settings["duration_s"] = trial.duration_s
        interval(world, settings, trial.block, is_threaded=is_threaded)
    else:
        settings["quiet_s"] = 1.0
        threshold(world, settings, trial.block, is_threaded=is_threaded)
    num_healthy = trial.num_hosts - trial.num_members
    return Outcome(
        trial,
        tally.false,
        tally.false_at_healthy,
        tuple(min(seen.values()) for seen in tally.seen.values()),
        tuple(max(seen.values()) for seen in tally.seen.values() if len(seen) == num_healthy),
        world.network.counts["datagrams"],
    )


def trials(
    sample: int,
    seed: int,
    *,
    num_hosts: int = 128,
    duration_s: float = 120.0,
    repeats: int = 1,
    block: str = "process",
) -> list[Trial]:
    """Return the trials: the grid, or ``sample`` random points of it, the same for all rules.

    Each point of the interval grid comes with one threshold trial of as many members for every eight points.
    """
    points = [
        point
        for point in product(MEMBERS, BLOCKED_S, FREE_S)
        for _ in range(repeats)
        if point[0] < num_hosts / 2
    ]
    if sample:
        points = Random(seed).sample(points, min(sample, len(points)))
    found = []
    for rules in RULES:
        for number, (members, blocked_s, free_s) in enumerate(points):
            trial = Trial(
                rules, INTERVAL, members, blocked_s, free_s, seed + number, num_hosts, duration_s, block
            )
            found.append(trial)
            if number % len(FREE_S) == 0:
                found.append(replace(trial, is_interval=THRESHOLD, blocked_s=DETECTABLE_S, free_s=0.0))
    return found


def trial_at(point: str, args: argparse.Namespace, rules: str) -> Trial:
    """Return the trial of one point, written KIND:C:D:I. Errors: ArgumentTypeError says how to write it."""
    try:
        kind, members, blocked_s, free_s = point.split(":")
        is_interval = {"interval": INTERVAL, "threshold": THRESHOLD}[kind]
        numbers = int(members), float(blocked_s), float(free_s)
    except (ValueError, KeyError):
        message = f"--point {point}: write interval:C:D:I or threshold:C:D:0"
        raise argparse.ArgumentTypeError(message) from None
    return Trial(rules, is_interval, *numbers, args.seed, args.hosts, args.duration, args.block)


def run_trials(wanted: Sequence[Trial], num_processes: int) -> Iterator[Outcome]:
    """Run trials, several at a time; outcomes come in the order of the trials."""
    if num_processes <= 1:
        yield from map(run_trial, wanted)
        return
    with ProcessPoolExecutor(num_processes) as pool:
        yield from pool.map(run_trial, wanted, chunksize=1)


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the paper's table of the outcomes."""
    head = f"{'rules':<10} {'runs':>5} {'FP a run':>9} {'at healthy':>10} {'first med/99 s':>15} "
    lines = [head + f"{'all know med/99 s':>18} {'datagrams a host s':>19}"]
    for rules, group in groupby(outcomes, key=lambda outcome: outcome.trial.rules):
        runs = list(group)
        intervals = [run for run in runs if run.trial.is_interval]
        first = [value for run in runs if not run.trial.is_interval for value in run.first_s]
        known = [value for run in runs if not run.trial.is_interval for value in run.all_s]
        count = max(1, len(intervals))
        sent = sum(run.num_datagrams / run.trial.num_hosts / run.trial.duration_s for run in intervals)
        lines.append(
            f"{rules:<10} {len(intervals):>5} {sum(run.num_false for run in intervals) / count:>9.3f} "
            f"{sum(run.num_false_at_healthy for run in intervals) / count:>10.4f} {_pair(first):>15} "
            f"{_pair(known):>18} {sent / count:>19.2f}"
        )
    return lines


def _pair(values: Sequence[float]) -> str:
    shown = [percentile(values, share) for share in (0.5, 0.99)]
    return " / ".join("-" if value is None else f"{value:.2f}" for value in shown)


def _wanted(args: argparse.Namespace) -> list[Trial]:
    chosen = [rules for rules in RULES if not args.rules or rules in args.rules]
    if args.point:
        return [trial_at(point, args, rules) for rules in chosen for point in args.point]
    grid = trials(
        args.sample,
        args.seed,
        num_hosts=args.hosts,
        duration_s=args.duration,
        repeats=args.repeats,
        block=args.block,
    )
    return [trial for trial in grid if trial.rules in chosen]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiments and print the table."""
    parser = argparse.ArgumentParser(description="Lifeguard's interval and threshold experiments.")
    parser.add_argument("--sample", type=int, default=0, help="random points of the grid (0: all 432)")
    parser.add_argument("--repeats", type=int, default=1, help="runs of each point (the paper: 10)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=128)
    parser.add_argument("--duration", type=float, default=120.0, help="seconds of an interval run")
    parser.add_argument("--block", choices=BLOCKS, default="process", help="what stands still in a member")
    parser.add_argument("--rules", choices=RULES, action="append", help="only these (default: all)")
    parser.add_argument(
        "--point", action="append", metavar="KIND:C:D:I", help="only this one, with this seed"
    )
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args(arguments)
    try:
        wanted = _wanted(args)
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    outcomes = []
    for outcome in run_trials(wanted, args.processes):
        outcomes.append(outcome)
        trial = outcome.trial
        sys.stdout.write(
            f"{trial.rules} {'interval' if trial.is_interval else 'threshold'} C={trial.num_members} "
            f"D={trial.blocked_s} I={trial.free_s} seed={trial.seed}: FP {outcome.num_false}, "
            f"at healthy {outcome.num_false_at_healthy}\n  again: {trial.command}\n"
        )
        sys.stdout.flush()
    sys.stdout.write("\n".join(table(outcomes)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
