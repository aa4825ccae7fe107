"""The scenario in which everything happens at once: what must hold always must hold here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gpumesh.sim.churn import bring_back, take_away
from gpumesh.sim.gpus import report_of
from gpumesh.sim.host import SimHost
from gpumesh.sim.world import GPUS_A_HOST, World

Settings = Mapping[str, float]
Blow = Callable[[World, SimHost, Settings], None]


def storm(world: World, settings: Settings) -> None:
    """Let faults overlap for a while: loss, cuts, stops, sleep, deaths, goodbyes; then wait for agreement."""
    clean = world.conditions.link
    for host in world.hosts:
        host.clock.set_rate(world.now, 1.0 + world.random.uniform(-0.01, 0.01))
    world.start_all(over_s=5.0)
    end = world.now + settings["duration_s"]
    while world.now < end:
        world.run_for(world.random.expovariate(1.0 / settings["every_s"]))
        host = world.random.choice(world.hosts)
        if world.is_living(host):
            world.random.choice(BLOWS)(world, host, settings)
        else:
            bring_back(world, host)
    world.conditions.link = clean
    world.conditions.loss_in.clear()
    world.conditions.loss_out.clear()
    if world.conditions.groups:
        world.heal()
    for host in world.hosts:
        host.ingress_delay_s = None
        if not world.is_living(host):
            world.restart(host)
    # Whoever still sleeps wakes within this time.
    world.run_for(settings["most_s"])
    world.truth.repair([host.number for host in world.hosts], world.now)
    world.settle(settings["limit_s"], quiet_s=30.0)


def _die(world: World, host: SimHost, settings: Settings) -> None:
    del settings
    if len(world.running) > len(world.hosts) // 2:
        take_away(world, host)


def _stop(world: World, host: SimHost, settings: Settings) -> None:
    world.stall(host, world.random.uniform(0.1, settings["most_s"]))


def _sleep(world: World, host: SimHost, settings: Settings) -> None:
    world.suspend(host, world.random.uniform(0.1, settings["most_s"]))


def _starve(world: World, host: SimHost, settings: Settings) -> None:
    del settings
    world.narrate(f"{host.identity.name} reads its packets late")
    world.truth.impair([host.number], world.now)
    host.ingress_delay_s = (0.0, world.random.uniform(0.1, 2.0))


def _deafen(world: World, host: SimHost, settings: Settings) -> None:
    way = world.random.choice((world.conditions.loss_in, world.conditions.loss_out))
    world.narrate(f"{host.identity.name} gets a bad link of its own")
    world.truth.impair([host.number], world.now)
    way[host.number] = world.random.uniform(0.0, settings["own_loss"])


def _weather(world: World, host: SimHost, settings: Settings) -> None:
    del host
    link = world.conditions.link
    world.conditions.link = replace(
        link,
        loss=world.random.uniform(0.0, settings["loss"]),
        jitter_s=world.random.uniform(0.0001, 0.02),
        duplicate=world.random.uniform(0.0, 0.1),
        reorder=world.random.uniform(0.0, 0.2),
    )
    world.narrate(f"the weather changes: {world.conditions.link}")


def _cut(world: World, host: SimHost, settings: Settings) -> None:
    del host, settings
    if world.conditions.groups:
        world.heal()
        return
    hosts = list(world.hosts)
    world.random.shuffle(hosts)
    place = world.random.randint(1, len(hosts) - 1)
    world.partition([hosts[:place], hosts[place:]])


def _lose_card(world: World, host: SimHost, settings: Settings) -> None:
    del settings
    lost = {0} if world.chance(0.5) else set()
    host.set_health(report_of(host.identity.name, GPUS_A_HOST, lost=lost))


BLOWS: tuple[Blow, ...] = (_die, _die, _stop, _sleep, _starve, _deafen, _weather, _cut, _cut, _lose_card)
