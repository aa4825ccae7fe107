"""Scenarios of bad paths: filters that pass streams only, a path that swallows large datagrams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpumesh.sim.world import World

Settings = Mapping[str, float]


def streams_only(world: World, settings: Settings) -> None:
    """Put one host behind a filter that passes streams only, from the start or later; it must stay alive."""
    hidden = world.random.choice(world.hosts)
    if world.chance(0.5):
        world.conditions.datagrams_blocked.add(hidden.number)
    world.start_all(over_s=2.0)
    world.run_until_agreed(settings["form_s"])
    world.narrate(f"{hidden.identity.name} is reached by streams only")
    world.conditions.datagrams_blocked.add(hidden.number)
    world.run_for(settings["duration_s"])
    others = [host for host in world.hosts if host is not hidden]
    world.crash(world.random.choice(others))
    world.run_until_agreed(settings["limit_s"])


def small_mtu(world: World, settings: Settings) -> None:
    """Swallow all datagrams above the path's MTU, silently, from the start."""
    world.conditions.link = replace(world.conditions.link, mtu_bytes=int(settings["mtu_bytes"]))
    world.start_all(over_s=2.0)
    world.run_until_agreed(settings["form_s"])
    world.run_for(settings["duration_s"])
    world.crash(world.random.choice(world.hosts))
    world.run_until_agreed(settings["limit_s"])
