"""The scenario of a key that is rotated across a living fleet while one host is off."""

from __future__ import annotations

from collections.abc import Mapping

from gpumesh.config.keyring import FleetKey, Keyring
from gpumesh.sim.host import SimHost
from gpumesh.sim.world import World

OLD = FleetKey(b"simulated, the old key".ljust(32, b"."))
NEW = FleetKey(b"simulated, the new key".ljust(32, b"."))
FIRST_RING = Keyring((OLD,))
ADDED = Keyring((OLD, NEW))
USED = Keyring((NEW, OLD))
REMOVED = Keyring((NEW,))


def rotation(world: World, settings: Mapping[str, float]) -> None:
    """Add, use, remove (serf#579, consul#719); the absent host had the new key already, or needs it first."""
    world.start_all(over_s=2.0)
    world.run_until_agreed(settings["form_s"])
    absent = world.random.choice(world.hosts)
    others = [host for host in world.hosts if host is not absent]
    has_both = world.chance(0.5)
    if has_both:
        _give(world, world.hosts, ADDED)
    world.crash(absent, power=world.chance(0.5))
    world.run_for(world.random.uniform(0.0, settings["away_s"]))
    for ring in (ADDED, USED):
        _give(world, others, ring)
    if has_both:
        world.restart(absent)
        world.run_until_agreed(settings["limit_s"])
        _give(world, [absent], USED)
        _give(world, world.hosts, REMOVED)
    else:
        _give(world, others, REMOVED)
        world.restart(absent)
        world.run_for(settings["locked_out_s"])
        _look_at_locked_out(world, absent, others)
        _give(world, [absent], REMOVED)
    world.settle(settings["limit_s"])


def _give(world: World, hosts: list[SimHost], ring: Keyring) -> None:
    """Let the operator go from host to host."""
    assert world.keys is not None
    for host in world.random.sample(hosts, len(hosts)):
        world.narrate(f"{host.identity.name} has keys {', '.join(ring.key_ids)} now")
        world.keys.give(host.host_id, ring)
        world.run_for(world.random.uniform(0.0, 3.0))


def _look_at_locked_out(world: World, absent: SimHost, others: list[SimHost]) -> None:
    """Both sides must say what is the matter, and neither may take the other's word."""
    assert world.keys is not None
    if world.keys.lacked_by(absent.host_id) != NEW.key_id.hex():
        world.report("rotation", "does not know which key it lacks", absent)
    for host in others:
        assert host.node is not None
        row = next((row for row in host.node.members() if row.host_id == absent.host_id), None)
        if row is not None and row.epoch == absent.identity.epoch:
            world.report("rotation", f"took the word of {absent.identity.name} under a removed key", host)
    if not any(host.node is not None and _num_refused(host) for host in others):
        world.report("rotation", "nobody counted what came under a removed key")


def _num_refused(host: SimHost) -> int:
    assert host.node is not None
    return sum(count for name, count in host.node.counters.items() if name.endswith("unknown_key"))
