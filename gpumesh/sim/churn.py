"""The scenario of a fleet that never rests: hosts die, leave, return, move; cards are lost and found."""

from __future__ import annotations

from collections.abc import Mapping

from gpumesh.model import Address
from gpumesh.sim.gpus import report_of
from gpumesh.sim.host import SimHost
from gpumesh.sim.world import GPUS_A_HOST, PORT, World


def churn(world: World, settings: Mapping[str, float]) -> None:
    """Do something to a host every few seconds, then bring all back and wait for agreement."""
    world.start_all(over_s=2.0)
    world.run_for(10.0)
    end = world.now + settings["duration_s"]
    while world.now < end:
        world.run_for(world.random.expovariate(1.0 / settings["every_s"]))
        host = world.random.choice(world.hosts)
        if not world.is_living(host):
            bring_back(world, host)
        elif world.chance(0.4):
            lost = {0} if world.chance(0.5) else set()
            host.set_health(report_of(host.identity.name, GPUS_A_HOST, lost=lost))
        elif len(world.running) > len(world.hosts) // 2:
            take_away(world, host)
    world.run_until_agreed(settings["limit_s"])
    for host in world.hosts:
        if not world.is_living(host):
            world.restart(host)
    world.run_until_agreed(settings["limit_s"])


def bring_back(world: World, host: SimHost) -> None:
    """Start a host again, sometimes at another address, sometimes after a reboot."""
    address = None
    if world.chance(0.3):
        address = Address(f"10.200.{host.number}.{host.identity.epoch % 250 + 1}", PORT)
    world.restart(host, address=address, reboot=world.chance(0.5))


def take_away(world: World, host: SimHost) -> None:
    """Let a host leave or die, or restart at once."""
    way = world.random.choice(("leave", "kill", "power", "restart"))
    if way == "leave":
        world.leave(host)
    elif way == "restart":
        # Back before anybody noticed: only the new epoch tells.
        world.crash(host)
        world.run_for(world.random.uniform(0.0, 1.5))
        world.restart(host)
    else:
        world.crash(host, power=way == "power")
