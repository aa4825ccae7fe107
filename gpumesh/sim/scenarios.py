"""The named scenarios: what befalls a fleet, each drawn anew from its seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gpumesh.sim.churn import churn
from gpumesh.sim.conditions import LinkProfile
from gpumesh.sim.gpus import report_of
from gpumesh.sim.host import SimHost
from gpumesh.sim.lifeguard import interval, threshold
from gpumesh.sim.paths import (
    closed_router,
    jumbled,
    one_way_links,
    rewritten_ports,
    small_mtu,
    streams_only,
)
from gpumesh.sim.returns import partition_long, seed_gone, seed_moved, stopped_long
from gpumesh.sim.rotation import rotation
from gpumesh.sim.storm import storm
from gpumesh.sim.world import GPUS_A_HOST, World

Settings = Mapping[str, float]
Script = Callable[[World, Settings], None]

FORM_LIMIT_S = 20.0
"""How long a fleet without faults may take to form, from its last start."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A script with its settings; what it draws comes from ``world.random``, hence from the seed."""

    name: str
    summary: str
    script: Script
    settings: Settings = field(default_factory=dict)
    """Its numbers with their defaults; ``--set name=value`` overrides one."""
    num_hosts: int = 8
    is_experiment: bool = False
    """It measures rather than tests, or takes long: ``--scenario all`` leaves it out."""
    is_keyed: bool = False
    link: LinkProfile = field(default_factory=LinkProfile)


def form(world: World) -> None:
    """Start everybody and wait for agreement."""
    world.start_all(over_s=world.random.uniform(0.0, 3.0))
    world.run_until_agreed(FORM_LIMIT_S)


def some_hosts(world: World, share: float) -> list[SimHost]:
    """Draw at least one host, at most ``share`` of them."""
    most = max(1, int(len(world.hosts) * share))
    return world.random.sample(world.hosts, world.random.randint(1, most))


def join(world: World, settings: Settings) -> None:
    """Let hosts start, late ones among them, and stay quiet."""
    late = some_hosts(world, 0.3)
    early = [host for host in world.hosts if host not in late]
    for host in early:
        world.agenda.after(world.random.uniform(0.0, settings["over_s"]), world.start, host)
    world.run_for(settings["over_s"])
    world.run_until_agreed(settings["limit_s"])
    for host in late:
        world.start(host)
        world.run_for(world.random.uniform(0.0, 5.0))
    world.run_until_agreed(settings["limit_s"])
    world.rest(settings["quiet_s"])


def loss(world: World, settings: Settings) -> None:
    """Lose packets everywhere for a while; then let one host die under it."""
    form(world)
    clean = world.conditions.link
    world.conditions.link = replace(clean, loss=settings["loss"], duplicate=0.02, reorder=0.05)
    world.run_for(settings["duration_s"])
    world.crash(world.random.choice(world.hosts), power=world.chance(0.5))
    world.run_until_agreed(settings["limit_s"])
    world.conditions.link = clean
    world.run_for(10.0)
    world.run_until_agreed(FORM_LIMIT_S)


def one_way_loss(world: World, settings: Settings) -> None:
    """Let a few hosts lose most of what they receive, or most of what they send."""
    form(world)
    victims = some_hosts(world, settings["share"])
    numbers = [victim.number for victim in victims]
    world.truth.impair(numbers, world.now)
    for number in numbers:
        way = world.random.choice((world.conditions.loss_in, world.conditions.loss_out))
        way[number] = settings["loss"]
    world.run_for(settings["duration_s"])
    world.conditions.loss_in.clear()
    world.conditions.loss_out.clear()
    world.run_until_agreed(settings["limit_s"])
    world.truth.repair(numbers, world.now)
    world.run_for(20.0)
    world.run_until_agreed(FORM_LIMIT_S)


def stall(world: World, settings: Settings) -> None:
    """Stop a few daemons again and again, with little time in between."""
    form(world)
    victims = some_hosts(world, settings["share"])
    numbers = [victim.number for victim in victims]
    world.truth.impair(numbers, world.now)
    end = world.now + settings["duration_s"]
    while world.now < end:
        for victim in victims:
            world.stall(victim, settings["stopped_s"])
            world.truth.impair([victim.number], world.now)
        world.run_for(settings["stopped_s"] + settings["free_s"])
    world.run_until_agreed(settings["limit_s"])
    world.truth.repair(numbers, world.now)
    world.run_for(20.0)
    world.run_until_agreed(FORM_LIMIT_S)


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


def suspend(world: World, settings: Settings) -> None:
    """Put a few hosts to sleep for seconds or minutes."""
    form(world)
    victims = some_hosts(world, settings["share"])
    longest_s = 0.0
    for victim in victims:
        duration_s = world.random.uniform(1.0, settings["most_s"])
        longest_s = max(longest_s, duration_s)
        world.agenda.after(world.random.uniform(0.0, 5.0), world.suspend, victim, duration_s)
    world.run_for(longest_s + 5.0)
    world.settle(settings["limit_s"])


def partition_heal(world: World, settings: Settings) -> None:
    """Split the fleet, let a card be lost meanwhile, heal, and wait for one fleet again."""
    form(world)
    hosts = list(world.hosts)
    world.random.shuffle(hosts)
    cut = world.random.randint(1, len(hosts) - 1)
    world.partition([hosts[:cut], hosts[cut:]])
    world.run_for(world.random.uniform(1.0, settings["most_s"]))
    loser = world.random.choice(hosts)
    loser.set_health(report_of(loser.identity.name, GPUS_A_HOST, lost={0}))
    world.heal()
    world.settle(settings["limit_s"])


def mass_restart(world: World, settings: Settings) -> None:
    """Restart everybody within seconds, as an upgrade or a power cut does."""
    form(world)
    world.run_for(world.random.uniform(0.0, 20.0))
    is_power_cut = world.chance(0.5)
    for host in world.hosts:
        if is_power_cut:
            world.crash(host, power=True)
        down_s = world.random.uniform(0.0, settings["within_s"])
        world.agenda.after(down_s, lambda host=host: world.restart(host, reboot=is_power_cut))
    world.run_for(settings["within_s"])
    world.settle(settings["limit_s"])


def clock_drift(world: World, settings: Settings) -> None:
    """Let clocks run fast and slow and leap forward; then let one host die."""
    for host in world.hosts:
        drift = world.random.uniform(-settings["drift"], settings["drift"])
        host.clock.set_rate(world.now, 1.0 + drift)
    form(world)
    for _ in range(int(settings["jumps"])):
        world.run_for(world.random.uniform(5.0, 20.0))
        host = world.random.choice(world.hosts)
        world.truth.impair([host.number], world.now)
        host.clock.jump(world.now, world.random.uniform(0.1, settings["jump_s"]))
        world.run_for(settings["limit_s"])
        world.truth.repair([host.number], world.now)
    world.crash(world.random.choice(world.hosts))
    world.run_until_agreed(settings["limit_s"])


def crash(world: World, settings: Settings) -> None:
    """Kill a few daemons or cut their power at once, then lose a card elsewhere."""
    form(world)
    world.run_for(world.random.uniform(0.0, 10.0))
    victims = some_hosts(world, settings["share"])
    for victim in victims:
        world.crash(victim, power=world.chance(settings["power"]))
    world.run_until_agreed(settings["limit_s"])
    survivor = world.random.choice(world.running)
    survivor.set_health(report_of(survivor.identity.name, GPUS_A_HOST, lost={1}))
    world.run_until_agreed(10.0)
    world.rest(settings["quiet_s"])


def goodbye(world: World, settings: Settings) -> None:
    """Let a few hosts leave, and come back later."""
    form(world)
    victims = some_hosts(world, settings["share"])
    for victim in victims:
        world.leave(victim)
        world.run_for(world.random.uniform(0.0, 2.0))
    world.run_until_agreed(settings["limit_s"])
    world.run_for(world.random.uniform(2.0, 40.0))
    for victim in victims:
        world.restart(victim)
    world.run_until_agreed(settings["limit_s"])


SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "join", "a fleet forms, late hosts join", join, {"over_s": 2.0, "limit_s": 15.0, "quiet_s": 30.0}
        ),
        Scenario(
            "loss30",
            "30 % of all packets are lost for two minutes, then a host dies",
            loss,
            {"loss": 0.3, "duration_s": 120.0, "limit_s": 60.0},
        ),
        Scenario(
            "one_way_loss",
            "a few hosts lose most of what they receive, or send",
            one_way_loss,
            {"loss": 0.8, "share": 0.25, "duration_s": 60.0, "limit_s": 30.0},
        ),
        Scenario(
            "stall",
            "a few daemons are stopped again and again",
            stall,
            {"share": 0.25, "stopped_s": 8.0, "free_s": 0.05, "duration_s": 60.0, "limit_s": 30.0},
        ),
        Scenario(
            "late_reads",
            "a few hosts read their packets 0.5 to 2.5 s late",
            late_reads,
            {"share": 0.25, "least_s": 0.5, "most_s": 2.5, "duration_s": 60.0, "limit_s": 30.0},
        ),
        Scenario(
            "suspend",
            "a few hosts sleep for a while",
            suspend,
            {"share": 0.4, "most_s": 300.0, "limit_s": 30.0},
        ),
        Scenario(
            "partition_heal",
            "the fleet is split in two, and heals",
            partition_heal,
            {"most_s": 180.0, "limit_s": 10.0},
        ),
        Scenario(
            "churn",
            "hosts die, leave, return, move; cards are lost",
            churn,
            {"duration_s": 120.0, "every_s": 4.0, "limit_s": 60.0},
        ),
        Scenario(
            "storm",
            "everything at once: loss, cuts, stops, sleep, deaths, goodbyes",
            storm,
            {
                "duration_s": 120.0,
                "every_s": 4.0,
                "most_s": 30.0,
                "loss": 0.25,
                "own_loss": 0.9,
                "limit_s": 60.0,
            },
        ),
        Scenario(
            "mass_restart",
            "everybody restarts within seconds",
            mass_restart,
            {"within_s": 5.0, "limit_s": 20.0},
        ),
        Scenario(
            "clock_drift",
            "clocks run 2 % fast or slow and leap forward; a host dies",
            clock_drift,
            {"drift": 0.02, "jumps": 2.0, "jump_s": 60.0, "limit_s": 30.0},
        ),
        Scenario(
            "crash",
            "a few daemons die at once",
            crash,
            {"share": 0.4, "power": 0.5, "limit_s": 30.0, "quiet_s": 90.0},
        ),
        Scenario("goodbye", "a few hosts leave and return", goodbye, {"share": 0.4, "limit_s": 20.0}),
        Scenario(
            "streams_only",
            "datagrams of one host are filtered, streams pass",
            streams_only,
            {"form_s": 60.0, "duration_s": 60.0, "limit_s": 60.0},
        ),
        Scenario(
            "small_mtu",
            "datagrams above the path's MTU vanish",
            small_mtu,
            {"mtu_bytes": 1232.0, "form_s": 30.0, "duration_s": 60.0, "limit_s": 60.0},
        ),
        Scenario(
            "rewritten_ports",
            "a few hosts are behind a router that rewrites ports and forgets them",
            rewritten_ports,
            {"share": 0.5, "form_s": 20.0, "duration_s": 120.0, "limit_s": 30.0},
        ),
        Scenario(
            "closed_router",
            "one host is behind a router that lets in answers only, and forgets",
            closed_router,
            {"forget_s": 30.0, "form_s": 60.0, "duration_s": 180.0, "limit_s": 30.0},
        ),
        Scenario(
            "one_way_links",
            "some links lose everything, one way",
            one_way_links,
            {"share": 1.0, "form_s": 20.0, "duration_s": 120.0, "limit_s": 30.0},
        ),
        Scenario(
            "jumbled",
            "datagrams are doubled and reordered",
            jumbled,
            {
                "duplicate": 0.3,
                "reorder": 0.3,
                "reorder_s": 0.3,
                "form_s": 20.0,
                "duration_s": 120.0,
                "limit_s": 30.0,
            },
        ),
        Scenario(
            "stopped_long",
            "a few daemons are stopped for minutes",
            stopped_long,
            {"share": 0.4, "least_s": 60.0, "most_s": 900.0, "limit_s": 30.0},
        ),
        Scenario(
            "seed_gone",
            "the only seed is gone for good, and hosts restart",
            seed_gone,
            {"cached_s": 15.0, "limit_s": 40.0},
        ),
        Scenario(
            "seed_moved",
            "the only seed has moved, its name follows later",
            seed_moved,
            {"stale_s": 90.0, "limit_s": 45.0},
        ),
        Scenario(
            "rotation",
            "the fleet's key is rotated while a host is off",
            rotation,
            {"form_s": 20.0, "away_s": 60.0, "locked_out_s": 45.0, "limit_s": 60.0},
            is_keyed=True,
        ),
        Scenario(
            "partition_long",
            "the fleet is split for minutes to a day, and heals",
            partition_long,
            {"least_s": 180.0, "most_s": 86400.0, "limit_s": 10.0},
            num_hosts=4,
            is_experiment=True,
        ),
        Scenario(
            "lifeguard_interval",
            "Lifeguard's interval experiment: members block again and again",
            interval,
            {"members": 16.0, "blocked_s": 16.384, "free_s": 0.064, "duration_s": 120.0},
            num_hosts=128,
            is_experiment=True,
        ),
        Scenario(
            "lifeguard_threshold",
            "Lifeguard's threshold experiment: members block once",
            threshold,
            {"members": 16.0, "blocked_s": 16.384, "quiet_s": 60.0},
            num_hosts=128,
            is_experiment=True,
        ),
    )
}
