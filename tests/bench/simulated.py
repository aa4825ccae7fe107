"""Honesty under the same simulated hardship: gpumesh's rules beside Lifeguard's and plain SWIM's."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from statistics import mean

from gpumesh.sim.experiments import RULES, Outcome, run_trials, trials
from gpumesh.sim.measures import percentile
from gpumesh.sim.plan import Plan, run_plans
from gpumesh.swim.parameters import LAN, Parameters
from tests.bench.row import Bound, Row

TITLES = {"gpumesh": "gpumesh", "swim": "SWIM", "lifeguard": "Lifeguard"}
MOST_FALSE = Bound(1.2, is_exclusive=True)
MOST_FALSE_AT_HEALTHY = Bound(0.006, is_exclusive=True)
MOST_OF_SWIM = Bound(0.54, over="SWIM")
MOST_LATE = Bound(108 / 3600, is_exclusive=True)
"""kinship's: 108 runs of 3,600 with a false failure."""
LATE_HOSTS = 8


def measure_lifeguard(
    sample: int, seed: int, processes: int, *, num_hosts: int = 128, duration_s: float = 120.0
) -> list[Row]:
    """Run ``sample`` random points of Lifeguard's grid (0: all) under each set of rules.

    What is done stands in :mod:`gpumesh.sim.experiments`, which also prints each trial.
    """
    outcomes: dict[str, list[Outcome]] = {rules: [] for rules in TITLES}
    wanted = trials(sample, seed, num_hosts=num_hosts, duration_s=duration_s)
    for outcome in run_trials(wanted, processes):
        outcomes[outcome.trial.rules].append(outcome)
    intervals = _part(outcomes, is_interval=True)
    thresholds = _part(outcomes, is_interval=False)
    at = f"Lifeguard's experiments, {len(intervals['gpumesh'])} points, {num_hosts} simulated"
    false = {name: mean(run.num_false for run in runs) for name, runs in intervals.items()}
    healthy = {name: mean(run.num_false_at_healthy for run in runs) for name, runs in intervals.items()}
    first = {
        name: _median([value for run in runs for value in run.first_s]) for name, runs in thresholds.items()
    }
    known = {
        name: _median([value for run in runs for value in run.all_s]) for name, runs in thresholds.items()
    }
    sent = {
        name: mean(run.num_datagrams / run.trial.num_hosts / run.trial.duration_s for run in runs)
        for name, runs in intervals.items()
    }
    return [
        Row(f"{at}: false failures a run", "", _titled(false), {}, MOST_FALSE),
        Row(f"{at}: those at healthy hosts", "", _titled(healthy), {}, MOST_FALSE_AT_HEALTHY),
        Row(f"{at}: first to know", "s", _titled(first), {}, MOST_OF_SWIM),
        Row(f"{at}: all know", "s", _titled(known), {}),
        Row(f"{at}: datagrams a host sends", "1/s", _titled(sent), {}),
    ]


def measure_late_reads(num_runs: int, seed: int, processes: int) -> list[Row]:
    """Let up to a quarter of eight hosts read packets 0.5 to 2.5 s late; count runs with a false failure."""
    shares: dict[str, float | None] = {}
    for rules in TITLES:
        plans = [
            Plan("late_reads", number, LATE_HOSTS, "swim", parameters=_differences(RULES[rules]))
            for number in range(seed, seed + num_runs)
        ]
        shares[rules] = mean(result.measures.num_false > 0 for result in run_plans(plans, processes))
    title = f"packets read late, {num_runs} runs of {LATE_HOSTS} simulated: share with a false failure"
    return [Row(title, "", _titled(shares), {}, MOST_LATE)]


def _part(outcomes: Mapping[str, Sequence[Outcome]], *, is_interval: bool) -> dict[str, list[Outcome]]:
    return {
        name: [run for run in runs if run.trial.is_interval == is_interval] for name, runs in outcomes.items()
    }


def _differences(rules: Parameters) -> dict[str, float]:
    """Return what differs from the parameters that the simulator runs by default."""
    values = {field.name: getattr(rules, field.name) for field in fields(Parameters)}
    return {name: value for name, value in values.items() if value != getattr(LAN, name)}


def _median(values: Sequence[float]) -> float | None:
    return percentile(values, 0.5)


def _titled(values: Mapping[str, float | None]) -> dict[str, float | None]:
    return {title: values[rules] for rules, title in TITLES.items()}
