"""One run of a scenario: what is asked for, what came of it, and the command that asks again."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from gpumesh.sim.engines import FLEET, builder_for
from gpumesh.sim.invariants import all_invariants
from gpumesh.sim.keys import KeyBook
from gpumesh.sim.measures import Measures, MeasureTaker
from gpumesh.sim.rotation import FIRST_RING
from gpumesh.sim.rules import OWN, RULES
from gpumesh.sim.scenarios import SCENARIOS
from gpumesh.sim.watch import Violation
from gpumesh.sim.world import World

PATIENCE: Final = {"wan": 3.0}
"""Suspicion alone takes 30 s and more there."""
METERED_SHARE: Final = 8
"""One in so many hosts has the steps of its calls counted, which makes them take twice as long."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run, wholly: the same plan gives the same result."""

    scenario: str
    seed: int
    num_hosts: int
    engine: str = "mesh"
    profile: str = "lan"
    settings: Mapping[str, float] = field(default_factory=dict)
    """What differs from the scenario's own settings."""
    parameters: Mapping[str, float] = field(default_factory=dict)
    """What differs from the parameters of the membership protocol that profile and rules give."""
    rules: str = OWN
    """By which of :data:`~gpumesh.sim.rules.RULES` the hosts judge; others than OWN are measured only."""

    @property
    def command(self) -> str:
        """The command that runs this plan again."""
        words = [f"gpumesh sim --scenario {self.scenario} --seed {self.seed}"]
        if self.num_hosts != SCENARIOS[self.scenario].num_hosts:
            words.append(f"--hosts {self.num_hosts}")
        if self.engine != "mesh":
            words.append(f"--engine {self.engine}")
        if self.profile != "lan":
            words.append(f"--profile {self.profile}")
        if self.rules != OWN:
            words.append(f"--rules {self.rules}")
        words.extend(f"--set {name}={_exact(value)}" for name, value in sorted(self.settings.items()))
        words.extend(f"--parameter {name}={_exact(value)}" for name, value in sorted(self.parameters.items()))
        return " ".join(words)


def _exact(value: float) -> str:
    """Write a number so that it is read as the same one, short where that is so."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a plan."""

    plan: Plan
    violations: tuple[Violation, ...]
    num_violations: int
    measures: Measures
    num_events: int

    @property
    def is_fine(self) -> bool:
        """Whether every invariant held."""
        return self.num_violations == 0


def run_plan(plan: Plan, narrate: Callable[[str], None] | None = None) -> Result:
    """Run one plan to its end; an engine that raises is a violation like any other."""
    scenario = SCENARIOS[plan.scenario]
    taker = MeasureTaker()
    # What experiments and other rules do to a fleet is no fault of this one's rules.
    is_measured = scenario.is_experiment or plan.rules != OWN
    keys = KeyBook(FLEET, FIRST_RING if scenario.is_keyed else None)
    world = World(
        seed=plan.seed,
        num_hosts=plan.num_hosts,
        build=builder_for(plan.engine, plan.profile, {**RULES[plan.rules], **plan.parameters}, keys),
        keys=keys,
        link=scenario.link,
        watches=(taker,) if is_measured else (*all_invariants(), taker),
        patience=PATIENCE.get(plan.profile, 1.0),
        metered_share=0 if is_measured else METERED_SHARE,
        narrate=narrate,
    )
    try:
        scenario.script(world, {**scenario.settings, **plan.settings})
    except Exception:  # noqa: BLE001 - whatever the engine raised belongs into the report, with its seed
        world.report("engine_raised", traceback.format_exc())
    return Result(
        plan, tuple(world.violations), world.num_violations, taker.take(world), world.agenda.num_done
    )


def run_plans(plans: Sequence[Plan], num_processes: int) -> Iterator[Result]:
    """Run plans, several at a time; results come in the order of the plans."""
    if num_processes <= 1 or len(plans) <= 1:
        yield from map(run_plan, plans)
        return
    with ProcessPoolExecutor(num_processes) as pool:
        yield from pool.map(run_plan, plans, chunksize=1)
