"""Every scenario over fixed seeds, and over fresh ones that differ in each run of the tests.

A failure names the one command that replays it.
"""

from __future__ import annotations

import secrets

import pytest

from gpumesh.sim.plan import Plan, run_plan
from gpumesh.sim.scenarios import SCENARIOS
from tests.sim.replay import again

TESTS = [name for name, scenario in SCENARIOS.items() if not (scenario.is_experiment or scenario.is_long)]
FIXED = [("mesh", 1), ("mesh", 2), ("swim", 3)]
NUM_FRESH = 2
ONCE_BROKEN = [
    # A host that slept, or whose clock leapt, read old beats and showed its peers failed for standing ones.
    ("suspend", 10),
    ("clock_drift", 6),
]


def verify(scenario: str, seed: int, engine: str) -> None:
    result = run_plan(Plan(scenario, seed, SCENARIOS[scenario].num_hosts, engine))
    assert result.is_fine, again(result)


@pytest.mark.parametrize(("engine", "seed"), FIXED)
@pytest.mark.parametrize("scenario", TESTS)
def test_invariants_hold_in_known_worlds(scenario: str, engine: str, seed: int) -> None:
    verify(scenario, seed, engine)


@pytest.mark.parametrize(("scenario", "seed"), ONCE_BROKEN)
def test_worlds_that_once_broke_an_invariant_hold(scenario: str, seed: int) -> None:
    verify(scenario, seed, "mesh")


@pytest.mark.parametrize(("engine", "seed"), [("mesh", 1), ("swim", 2), ("swim", 3)])
def test_fleets_that_were_apart_for_hours_merge_within_seconds(engine: str, seed: int) -> None:
    # A day takes minutes a run: make sim-long has it.
    plan = Plan("partition_long", seed, 4, engine, settings={"least_s": 3600.0, "most_s": 7200.0})
    result = run_plan(plan)
    assert result.is_fine, again(result)


@pytest.mark.parametrize("scenario", TESTS)
def test_invariants_hold_in_worlds_never_seen_before(scenario: str) -> None:
    for _ in range(NUM_FRESH):
        verify(scenario, secrets.randbelow(2**31), "mesh")
