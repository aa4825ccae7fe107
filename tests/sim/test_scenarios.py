"""Every scenario over fixed seeds, and over fresh ones that differ in each run of the tests.

A failure names the one command that replays it.
"""

from __future__ import annotations

import secrets

import pytest

from gpumesh.sim.plan import Plan, run_plan
from gpumesh.sim.scenarios import SCENARIOS

TESTS = [name for name, scenario in SCENARIOS.items() if not scenario.is_experiment]
FIXED_SEEDS = (1, 2, 3)
NUM_FRESH = 3


def verify(scenario: str, seed: int, engine: str) -> None:
    result = run_plan(Plan(scenario, seed, SCENARIOS[scenario].num_hosts, engine))
    lines = [f"again: {result.plan.command}", *map(str, result.violations)]
    assert result.is_fine, "\n".join(lines)


@pytest.mark.parametrize("engine", ["mesh", "swim"])
@pytest.mark.parametrize("seed", FIXED_SEEDS)
@pytest.mark.parametrize("scenario", TESTS)
def test_invariants_hold_in_known_worlds(scenario: str, seed: int, engine: str) -> None:
    verify(scenario, seed, engine)


@pytest.mark.parametrize("scenario", TESTS)
def test_invariants_hold_in_worlds_never_seen_before(scenario: str) -> None:
    for _ in range(NUM_FRESH):
        verify(scenario, secrets.randbelow(2**31), "mesh")
