"""Starved hosts: they read each packet late and in order while their timers fire on time.

So they miss acks, accuse healthy hosts, and are themselves heard too late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gpumesh.sim.forming import form, some_hosts
from gpumesh.sim.world import World

Settings = Mapping[str, float]

START_S: Final = 1.0
"""How long the hosts take to start."""


def late_reads(world: World, settings: Settings) -> None:
    """Let a few starved hosts read their packets late, while their timers run on time."""
    form(world)
    victims = some_hosts(world, settings["share"])
    numbers = [victim.number for victim in victims]
    world.truth.impair(numbers, world.now)
    for victim in victims:
        victim.ingress_delay_s = (settings["least_s"], settings["most_s"])
    world.run_for(settings["duration_s"])
    for victim in victims:
        victim.ingress_delay_s = None
    world.run_until_agreed(settings["limit_s"])
    world.truth.repair(numbers, world.now)


def starved(world: World, settings: Settings) -> None:
    """Run the experiment of kinship (bytevader/kinship, docs/results/lifeguard.md; there 50 and 200 hosts).

    A share of the hosts, at least one, is starved from its start on, for the whole run; some packets are lost
    on all links; a healthy host loses power at ``crash_at_s``.
    """
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
