"""Scenarios of coming back: long partitions, long stops, a seed that is gone or has moved."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gpumesh.model import Address
from gpumesh.sim.world import PORT, World

Settings = Mapping[str, float]
FORM_S = 20.0


def _form(world: World) -> None:
    world.start_all(over_s=2.0)
    world.run_until_agreed(FORM_S)


def partition_long(world: World, settings: Settings) -> None:
    """Keep two sides apart for minutes or hours, up to a day; they merge as fast as after a second."""
    _form(world)
    hosts = world.random.sample(world.hosts, len(world.hosts))
    cut = world.random.randint(1, len(hosts) - 1)
    world.partition([hosts[:cut], hosts[cut:]])
    low, high = math.log(settings["least_s"]), math.log(settings["most_s"])
    world.run_for(math.exp(world.random.uniform(low, high)))
    world.heal()
    world.settle(settings["limit_s"])


def stopped_long(world: World, settings: Settings) -> None:
    """Stop daemons for minutes (SIGSTOP), then let them go on: they accuse nobody, and are let in."""
    _form(world)
    num_most = max(1, int(len(world.hosts) * settings["share"]))
    longest_s = 0.0
    for victim in world.random.sample(world.hosts, world.random.randint(1, num_most)):
        duration_s = world.random.uniform(settings["least_s"], settings["most_s"])
        longest_s = max(longest_s, duration_s)
        world.agenda.after(world.random.uniform(0.0, 5.0), world.stall, victim, duration_s)
    world.run_for(longest_s + 5.0)
    world.settle(settings["limit_s"])


def seed_gone(world: World, settings: Settings) -> None:
    """Lose the only seed for good; hosts that restart find the fleet by the peers they kept."""
    seed, *others = world.hosts
    for host in world.hosts:
        host.resolve_seeds = lambda: (seed.address,)
    _form(world)
    world.run_for(settings["cached_s"])
    world.crash(seed, power=world.chance(0.5))
    world.run_for(world.random.uniform(0.0, 60.0))
    returning = world.random.sample(others, world.random.randint(1, len(others)))
    for host in returning:
        world.crash(host, power=world.chance(0.5))
    world.run_for(world.random.uniform(0.0, 30.0))
    for host in returning:
        world.agenda.after(world.random.uniform(0.0, 3.0), world.restart, host)
    world.run_for(3.0)
    world.run_until_agreed(settings["limit_s"])


def seed_moved(world: World, settings: Settings) -> None:
    """Move the only seed; who kept no peers finds it as soon as its name leads to where it is now."""
    seed, *others = world.hosts
    known = [seed.address]
    for host in world.hosts:
        host.resolve_seeds = lambda: (known[0],)
    _form(world)
    lost = world.random.choice(others)
    world.crash(lost)
    lost.lose_peers()
    world.restart(seed, address=Address("10.250.0.1", PORT), reboot=world.chance(0.5))
    world.run_for(world.random.uniform(0.0, 30.0))
    world.restart(lost)
    world.run_for(world.random.uniform(5.0, settings["stale_s"]))
    world.narrate("the name of the seed leads to its new address")
    known[0] = seed.address
    world.run_until_agreed(settings["limit_s"])
