"""How scenarios begin: a fleet that has formed, and some of its hosts."""

from __future__ import annotations

from typing import Final

from gpumesh.sim.host import SimHost
from gpumesh.sim.world import World

FORM_LIMIT_S: Final = 20.0
"""How long a fleet without faults may take to form, from its last start."""


def form(world: World) -> None:
    """Start everybody and wait for agreement."""
    world.start_all(over_s=world.random.uniform(0.0, 3.0))
    world.run_until_agreed(FORM_LIMIT_S)


def some_hosts(world: World, share: float) -> list[SimHost]:
    """Draw at least one host, at most ``share`` of them."""
    most = max(1, int(len(world.hosts) * share))
    return world.random.sample(world.hosts, world.random.randint(1, most))
