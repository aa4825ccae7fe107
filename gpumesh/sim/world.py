"""A fleet in virtual time: its hosts, its network, what befalls them, and who looks on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from uuid import UUID

from gpumesh.model import Address, Event, Identity
from gpumesh.sim.agenda import Agenda, HostClock
from gpumesh.sim.agreement import find_disagreement, find_unrest
from gpumesh.sim.conditions import Conditions, LinkProfile
from gpumesh.sim.gpus import report_of
from gpumesh.sim.host import SimHost
from gpumesh.sim.keys import KeyBook
from gpumesh.sim.meter import metering
from gpumesh.sim.network import Network
from gpumesh.sim.node import NodeBuilder
from gpumesh.sim.status import Status
from gpumesh.sim.streams import Streams
from gpumesh.sim.truth import Ending, Truth
from gpumesh.sim.watch import Call, Violation, Watch, describe
from gpumesh.swim.ports import SwimEvent

PORT = 7977
MAX_VIOLATIONS = 50
"""Reported violations a run keeps; the rest is only counted."""
NUM_SEEDS = 3
GPUS_A_HOST = 2
STOPPED = "stopped"


class World:
    """A whole fleet; the same seed and the same script give the same run, packet by packet.

    One in ``metered_share`` hosts tells the watches what each call of its engine cost; 0: none does.
    """

    def __init__(
        self,
        *,
        seed: int,
        num_hosts: int,
        build: NodeBuilder,
        link: LinkProfile | None = None,
        watches: Sequence[Watch] = (),
        patience: float = 1.0,
        metered_share: int = 0,
        keys: KeyBook | None = None,
        narrate: Callable[[str], None] | None = None,
    ) -> None:
        self.seed = seed
        self.random = Random(f"{seed}/scenario")
        self.agenda = Agenda()
        self.conditions = Conditions(link or LinkProfile(), Random(f"{seed}/network"))
        self.network = Network(self.agenda, self.conditions)
        self.streams = Streams(self.network)
        self.truth = Truth()
        self.watches = tuple(watches)
        self._turn_watches = [item for item in watches if type(item).handle_turn is not Watch.handle_turn]
        self._row_watches = [item for item in watches if type(item).handle_rows is not Watch.handle_rows]
        self.violations: list[Violation] = []
        self.num_violations = 0
        self._told: set[tuple[str, str, str]] = set()
        self.patience = patience
        """Factor on all limits within which views must agree: scenarios name them for the ``lan`` profile."""
        self.keys = keys
        """The keys of a keyed fleet's hosts."""
        self._build = build
        if metered_share:
            self._build = metering(
                build,
                lambda identity: (self._numbers[identity.host_id] + seed) % metered_share == 0,
                self._take_call,
            )
        self._numbers: dict[str, int] = {}
        self._narrate = narrate
        self.hosts = [self._make_host(number) for number in range(num_hosts)]
        for host in self.hosts:
            host.resolve_seeds = self.resolve_seeds
        # Up to sixteen hosts are cheap to look at after each call; a larger fleet is looked at now and then.
        self._look_every_s = max(1.0, num_hosts / 16)
        self.agenda.after(self._look_every_s, self._look)

    def _make_host(self, number: int) -> SimHost:
        random = Random(f"{self.seed}/identity/{number}")
        clock = HostClock(
            world_now=0.0,
            reads=random.uniform(10.0, 1e6),
            rate=1.0 + random.uniform(-1e-4, 1e-4),
        )
        identity = Identity(
            host_id=str(UUID(int=random.getrandbits(128), version=4)),
            name=f"h{number:03d}",
            epoch=1,
            boot_id=f"{random.getrandbits(128):032x}",
            is_first_run=True,
        )
        host = SimHost(
            number=number,
            identity=identity,
            address=Address(f"10.{number >> 14 & 63}.{number >> 7 & 127}.{1 + (number & 127)}", PORT),
            clock=clock,
            network=self.network,
            streams=self.streams,
            build=self._build,
            listener=self,
            seed=self.seed,
        )
        host.report = report_of(host.identity.name, GPUS_A_HOST)
        self._numbers[identity.host_id] = number
        return host

    def resolve_seeds(self) -> Sequence[Address]:
        """Return where the hosts that all know by name are now."""
        return tuple(host.address for host in self.hosts[:NUM_SEEDS])

    # --- time ------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Seconds since the world began."""
        return self.agenda.now

    def chance(self, probability: float) -> bool:
        """Draw for the scenario whether something happens."""
        return self.random.random() < probability

    def run_for(self, duration_s: float) -> None:
        """Let time pass."""
        self.agenda.run_until(self.agenda.now + duration_s)

    def run_until_agreed(self, limit_s: float, *, step_s: float = 0.25) -> float | None:
        """Let time pass until all views agree with the truth; report a violation if they do not in time.

        ``limit_s`` is for the ``lan`` profile. Returns the seconds it took, or None.
        """
        limit_s *= self.patience
        began_at = self.agenda.now
        while True:
            disagreement = self.disagreement()
            waited_s = self.agenda.now - began_at
            if disagreement is None:
                for watch in self.watches:
                    watch.handle_agreement(self, waited_s)
                return waited_s
            if waited_s >= limit_s:
                observer, detail = disagreement
                self.report("agreement", f"{detail}, {waited_s:.0f} s after the last fault", observer)
                return None
            self.run_for(step_s)

    def settle(self, limit_s: float, quiet_s: float = 20.0) -> None:
        """Let all views agree within the limit, and still agree after some quiet seconds."""
        self.run_until_agreed(limit_s)
        self.run_for(quiet_s)
        self.run_until_agreed(0.0)

    def rest(self, duration_s: float) -> None:
        """Let time pass in which nothing happens; all queues of news must be empty then, all views agree."""
        self.run_for(duration_s)
        unrest = find_unrest(self)
        if unrest is not None:
            observer, detail = unrest
            self.report("rest", f"{detail} after {duration_s:.0f} s in which nothing happened", observer)
        self.run_until_agreed(0.0)

    # --- what befalls hosts ----------------------------------------------------------------------

    def start(self, host: SimHost) -> None:
        """Start a host's daemon."""
        self.narrate(f"{host.identity.name} starts (epoch {host.identity.epoch})")
        self.truth.begin(host.number, host.host_id, host.identity.epoch, self.now)
        host.start()

    def start_all(self, over_s: float = 1.0) -> None:
        """Start all daemons, spread over some seconds."""
        for host in self.hosts:
            self.agenda.after(self.random.uniform(0.0, over_s), self.start, host)
        self.run_for(over_s)

    def crash(self, host: SimHost, *, power: bool = False) -> None:
        """End a daemon without a word (kill -9), or cut its host's power."""
        self.narrate(f"{host.identity.name} {'loses power' if power else 'is killed'}")
        self.truth.end(host.number, Ending.CRASHED, self.now)
        host.stop(power=power)

    def leave(self, host: SimHost) -> None:
        """Let a host say goodbye and stop."""
        self.narrate(f"{host.identity.name} leaves")
        self.truth.end(host.number, Ending.LEFT, self.now)
        host.leave()

    def restart(self, host: SimHost, *, address: Address | None = None, reboot: bool = False) -> None:
        """Start a host's daemon again as its next epoch."""
        where = f" at {address}" if address else ""
        self.narrate(f"{host.identity.name} starts again (epoch {host.identity.epoch + 1}){where}")
        self.truth.end(host.number, Ending.CRASHED, self.now)
        self.truth.begin(host.number, host.host_id, host.identity.epoch + 1, self.now)
        host.restart(address=address, reboot=reboot)

    def stall(self, host: SimHost, duration_s: float) -> None:
        """Stop a host's daemon for a while."""
        self.narrate(f"{host.identity.name} is stopped for {duration_s:.3f} s")
        host.stall(duration_s)
        self._impair_for(host, duration_s)

    def suspend(self, host: SimHost, duration_s: float) -> None:
        """Put a host to sleep for a while."""
        self.narrate(f"{host.identity.name} sleeps for {duration_s:.3f} s")
        host.suspend(duration_s)
        self._impair_for(host, duration_s)

    def _impair_for(self, host: SimHost, duration_s: float) -> None:
        self.truth.impair([host.number], self.now, STOPPED)
        self.agenda.after(duration_s, self._repair, host.number)

    def _repair(self, number: int) -> None:
        if self.hosts[number].status is Status.RUNNING:
            self.truth.repair([number], self.now, STOPPED)

    def partition(self, groups: Sequence[Iterable[SimHost]]) -> None:
        """Cut all links between the groups."""
        sides = tuple(frozenset(host.number for host in group) for group in groups)
        self.narrate("partition " + " | ".join(str(sorted(side)) for side in sides))
        self.conditions.partition(sides)
        self.truth.separate(sides, self.now)

    def heal(self) -> None:
        """End the partition."""
        self.narrate("the partition heals")
        self.conditions.heal()
        self.truth.join(self.now)

    # --- what is seen ----------------------------------------------------------------------------

    @property
    def running(self) -> list[SimHost]:
        """The hosts whose daemons run and have not said goodbye."""
        return [host for host in self.hosts if host.status is Status.RUNNING and self.is_living(host)]

    def is_living(self, host: SimHost) -> bool:
        """Whether a host's newest run has begun and not ended."""
        life = self.truth.latest(host.number)
        return life is not None and life.ended_at is None

    def disagreement(self) -> tuple[SimHost, str] | None:
        """Return one host whose view differs from the truth and how, or None at agreement."""
        return find_disagreement(self)

    def report(self, invariant: str, detail: str, host: SimHost | None = None) -> None:
        """Report that an invariant does not hold; what stands on is told once."""
        violation = Violation(invariant, self.now, host.identity.name if host else "", detail)
        if (invariant, violation.observer, detail) in self._told:
            return
        self._told.add((invariant, violation.observer, detail))
        self.num_violations += 1
        self.narrate(f"VIOLATION {violation}")
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(violation)

    def narrate(self, text: str) -> None:
        """Tell what happens to whoever asked for it."""
        if self._narrate is not None:
            self._narrate(f"{self.now:9.3f} {text}")

    def name_of(self, host_id: str) -> str:
        """Return a host's short name, for reports."""
        return next((host.identity.name for host in self.hosts if host.host_id == host_id), host_id)

    def handle_change(self, host: SimHost, change: SwimEvent) -> None:
        """Pass a change on to all who look on."""
        if self._narrate is not None:
            self.narrate(f"{host.identity.name} sees {describe(change, self.name_of)}")
        for watch in self.watches:
            watch.handle_change(self, host, change)

    def handle_event(self, host: SimHost, event: Event) -> None:
        """Pass what a host tells people on to all who look on."""
        if self._narrate is not None and event.kind not in {"host.suspected", "host.refuted", "host.failed"}:
            fields = ", ".join(f"{key} {value}" for key, value in event.fields.items())
            self.narrate(f"{host.identity.name} tells {event.kind} {event.host} {event.reason} ({fields})")
        for watch in self.watches:
            watch.handle_event(self, host, event)

    def handle_turn(self, host: SimHost) -> None:
        """Pass on that a host's engine was called; in a small world all its rows are looked at each time."""
        for watch in self._turn_watches:
            watch.handle_turn(self, host)
        if self._look_every_s <= 1.0:
            self._look_at(host)

    def handle_fault(self, host: SimHost, name: str, detail: str) -> None:
        """Report a fault that a host's shell noticed."""
        self.report(name, detail, host)

    def _take_call(self, identity: Identity, name: str, num_steps: int, bound: int) -> None:
        host = self.hosts[self._numbers[identity.host_id]]
        for watch in self.watches:
            watch.handle_call(self, host, Call(name, num_steps, bound))

    def _look_at(self, host: SimHost) -> None:
        if host.status is Status.RUNNING and host.node is not None:
            rows = host.node.members()
            for watch in self._row_watches:
                watch.handle_rows(self, host, rows)

    def _look(self) -> None:
        for host in self.hosts:
            self._look_at(host)
        self.agenda.after(self._look_every_s, self._look)
