"""Scenarios of bad paths: filters, small MTUs, rewritten ports, links that work one way, jumbled packets."""

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


def rewritten_ports(world: World, settings: Settings) -> None:
    """Put a few hosts behind a router that rewrites their source ports, and now and then forgets them."""
    num_most = max(1, int(len(world.hosts) * settings["share"]))
    hidden = world.random.sample(world.hosts, world.random.randint(1, num_most))
    world.network.nat.hidden.update(host.number for host in hidden)
    world.start_all(over_s=2.0)
    world.run_until_agreed(settings["form_s"])
    end = world.now + settings["duration_s"]
    while world.now < end:
        world.run_for(world.random.uniform(1.0, 20.0))
        world.narrate("the router forgets whom it knew")
        world.network.nat.forget()
    world.crash(world.random.choice(world.hosts), power=world.chance(0.5))
    world.run_until_agreed(settings["limit_s"])


def closed_router(world: World, settings: Settings) -> None:
    """Put one host behind a router that lets in answers only, and now and then forgets whom it knew."""
    hidden = world.random.choice(world.hosts)
    world.network.nat.hidden.add(hidden.number)
    world.network.nat.is_closed = True
    world.start_all(over_s=2.0)
    world.run_until_agreed(settings["form_s"])
    end = world.now + settings["duration_s"]
    while world.now < end:
        world.run_for(world.random.uniform(settings["forget_s"], 2 * settings["forget_s"]))
        world.narrate("the router forgets whom it knew")
        world.network.nat.forget()
    world.run_for(settings["limit_s"])
    world.crash(hidden if world.chance(0.5) else world.random.choice(world.hosts), power=world.chance(0.5))
    world.run_until_agreed(settings["limit_s"])


def one_way_links(world: World, settings: Settings) -> None:
    """Let some links lose everything one way; others reach everybody, so that nobody is to be failed."""
    world.start_all(over_s=2.0)
    world.run_until_agreed(settings["form_s"])
    # Each host loses the way to one other and from one other, in a ring: whoever lost more would be impaired.
    ring = world.random.sample(world.hosts, int(len(world.hosts) * settings["share"]))
    for source, target in zip(ring, ring[1:] + ring[:1], strict=True):
        world.conditions.link_loss[source.number, target.number] = 1.0
    world.run_for(settings["duration_s"])
    world.conditions.link_loss.clear()
    world.run_until_agreed(settings["limit_s"])
    world.crash(world.random.choice(world.hosts), power=world.chance(0.5))
    world.run_until_agreed(settings["limit_s"])


def jumbled(world: World, settings: Settings) -> None:
    """Double and reorder datagrams all the time, and lose none: it must change nothing."""
    world.conditions.link = replace(
        world.conditions.link,
        duplicate=settings["duplicate"],
        reorder=settings["reorder"],
        reorder_s=settings["reorder_s"],
    )
    world.start_all(over_s=2.0)
    world.run_until_agreed(settings["form_s"])
    world.run_for(settings["duration_s"])
    world.crash(world.random.choice(world.hosts), power=world.chance(0.5))
    world.run_until_agreed(settings["limit_s"])
    survivor = world.random.choice(world.running)
    world.restart(survivor)
    world.run_until_agreed(settings["limit_s"])
    world.rest(90.0)
