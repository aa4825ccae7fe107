"""kinship's starvation experiment (its docs/results/lifeguard.md): who reads late from the first packet on.

A starved host reads each packet late and in order while its timers fire on time, so it misses acks, accuses
healthy hosts, and is itself heard too late. Some packets are lost on all links as well. Halfway in, a healthy
host loses power.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gpumesh.sim.world import World

START_S: Final = 1.0
"""How long the hosts take to start."""


def starved(world: World, settings: Mapping[str, float]) -> None:
    """Starve a share of the hosts, at least one, for the whole run; crash a healthy one at ``crash_at_s``."""
    world.conditions.link = replace(world.conditions.link, loss=settings["loss"])
    num_starved = max(1, round(len(world.hosts) * settings["share"]))
    *victims, crashed = world.random.sample(world.hosts, num_starved + 1)
    world.truth.impair([victim.number for victim in victims], world.now)
    for victim in victims:
        victim.ingress_delay_s = (settings["least_s"], settings["most_s"])
    world.start_all(START_S)
    world.run_for(settings["crash_at_s"] - world.now)
    world.crash(crashed, power=True)
    world.run_for(settings["duration_s"] - world.now)
