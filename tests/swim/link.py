"""A small deterministic network in virtual time for a handful of engines."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID
from zlib import crc32

from gpumesh.config.keyring import FleetKey, Keyring
from gpumesh.model import Address, Identity, Reachability
from gpumesh.swim.engine import Swim
from gpumesh.swim.parameters import Parameters
from gpumesh.swim.ports import (
    CloseStream,
    IdentityConflict,
    MemberChanged,
    OpenStream,
    SelfAccused,
    SendStream,
    StreamAction,
    SwimEvent,
)
from gpumesh.swim.seal import FleetSealer

KEY = Keyring((FleetKey(bytes(range(32))),))
LATENCY_S = 0.002
LOOK_S = 0.02
"""How often ``until`` is looked at."""


class QuietPassenger:
    """Rides along and notes what it is given."""

    def __init__(self) -> None:
        self.digest = b""
        self.outgoing: list[bytes] = []
        self.pages: list[bytes] = []
        self.updates: list[bytes] = []
        self.digests: list[tuple[str, bytes]] = []
        self.taken_pages: list[bytes] = []
        self.forgotten: list[str] = []
        self.wanted: str | None = None

    def digest_to_send(self, now: float) -> bytes:
        return self.digest

    def handle_digest(self, host_id: str, digest: bytes, now: float) -> None:
        self.digests.append((host_id, digest))

    def has_updates(self) -> bool:
        return bool(self.outgoing)

    def updates_to_send(self, limit_bytes: int, num_members: int) -> list[bytes]:
        taken = []
        while self.outgoing and len(self.outgoing[0]) + 3 <= limit_bytes:
            limit_bytes -= len(self.outgoing[0]) + 3
            taken.append(self.outgoing.pop(0))
        return taken

    def handle_update(self, update: bytes, now: float) -> None:
        self.updates.append(update)

    def wants_sync_with(self, now: float) -> str | None:
        wanted, self.wanted = self.wanted, None
        return wanted

    def outline_to_send(self, num_buckets: int) -> Sequence[int]:
        return (crc32(b"".join(self.pages)),) * num_buckets

    def summary_to_send(self, outline: Sequence[int]) -> bytes:
        return b"" if outline == self.outline_to_send(len(outline)) else b"summary"

    def pages_to_send(self, summary: bytes) -> list[bytes]:
        return list(self.pages)

    def handle_page(self, page: bytes, now: float) -> None:
        self.taken_pages.append(page)

    def forget(self, host_id: str) -> None:
        self.forgotten.append(host_id)


@dataclass
class Host:
    """One engine on the link."""

    name: str
    address: Address
    engine: Swim
    passenger: QuietPassenger
    seeds: list[Address]
    is_up: bool = True
    is_stopped: bool = False
    held: list[tuple[bytes, Address]] = field(default_factory=list)
    events: list[tuple[float, SwimEvent]] = field(default_factory=list)

    @property
    def host_id(self) -> str:
        return self.engine.members()[0].host_id

    def sees(self, other: Host) -> Reachability | None:
        return {row.host_id: row.reachability for row in self.engine.members()}.get(other.host_id)

    def changes(self) -> list[tuple[float, MemberChanged]]:
        return [(at, event) for at, event in self.events if isinstance(event, MemberChanged)]

    def conflicts(self) -> list[IdentityConflict]:
        return [event for _, event in self.events if isinstance(event, IdentityConflict)]

    def accusations(self) -> list[SelfAccused]:
        return [event for _, event in self.events if isinstance(event, SelfAccused)]


def host_id(number: int) -> str:
    return str(UUID(int=((number + 1) << 112) + number + 1))


class Link:
    """Carries datagrams and streams between hosts with latency, loss and cuts, all from one seed."""

    def __init__(self, seed: int = 0, *, parameters: Parameters | None = None, loss: float = 0.0) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.parameters = parameters or Parameters.for_profile("lan")
        self.loss = loss
        self.now = 1000.0
        self.hosts: dict[Address, Host] = {}
        self.is_cut: Callable[[Address, Address], bool] = lambda _source, _target: False
        self.is_filtered: Callable[[Address, Address], bool] = lambda _source, _target: False
        """As ``is_cut``, for datagrams alone."""
        self.mtu_bytes = 65_507
        self.streams_work = True
        self.datagrams_work = True
        self.wiretap: list[tuple[bytes, Address, Address]] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._num = itertools.count()
        self._peers: dict[tuple[Address, int], tuple[Address, int]] = {}

    def add(
        self,
        number: int,
        *,
        seeds: Sequence[Address] | None = None,
        epoch: int = 1,
        address: Address | None = None,
        fleet: str = "test",
        keyring: Keyring | None = KEY,
    ) -> Host:
        address = address or Address(f"10.0.{number // 250}.{number % 250 + 1}", 7977)
        identity = Identity(host_id(number), f"host-{number}", epoch, f"boot-{epoch}")
        passenger = QuietPassenger()
        random = Random(self.random.getrandbits(64))
        engine = Swim(
            identity=identity,
            address=address,
            fleet=fleet,
            parameters=self.parameters,
            sealer=FleetSealer(keyring, fleet, random.randbytes(16)),
            passenger=passenger,
            random=random,
            now=self.now,
        )
        first = next(iter(self.hosts), None)
        host = Host(
            f"host-{number}",
            address,
            engine,
            passenger,
            list(seeds if seeds is not None else [first] if first else []),
        )
        self.hosts[address] = host
        self._settle(host)
        return host

    def kill(self, host: Host) -> None:
        host.is_up = False

    def resume(self, host: Host) -> None:
        """Let a stopped process run again: it reads what waited, then looks at its timers."""
        host.is_stopped = False
        held, host.held = host.held, []
        for data, source in held:
            host.engine.handle_datagram(data, source, self.now)
        self._settle(host)

    def run(self, duration_s: float, until: Callable[[], bool] | None = None) -> float:
        """Advance virtual time; return the seconds that passed, fewer if ``until`` came true."""
        started_at, end_at = self.now, self.now + duration_s
        look_at = self.now
        while True:
            if until is not None and self.now >= look_at:
                look_at = self.now + LOOK_S
                if until():
                    return self.now - started_at
            timers = [
                (deadline, host)
                for host in self.hosts.values()
                if host.is_up
                and not host.is_stopped
                and (deadline := host.engine.next_deadline()) is not None
            ]
            timer_at = min((deadline for deadline, _ in timers), default=float("inf"))
            queue_at = self._queue[0][0] if self._queue else float("inf")
            at = max(self.now, min(timer_at, queue_at))
            if at > end_at:
                self.now = end_at
                return duration_s
            self.now = at
            if queue_at <= timer_at:
                heapq.heappop(self._queue)[2]()
                continue
            host = min(timers, key=lambda timer: timer[0])[1]
            host.engine.handle_timer(self.now)
            self._settle(host)

    def all_see(self, hosts: Sequence[Host], subjects: Sequence[Host], state: Reachability) -> bool:
        return all(
            host.sees(subject) is state for host in hosts for subject in subjects if host is not subject
        )

    def recorded(self, source: Host, target: Host) -> list[bytes]:
        """Return the datagrams that went from one host to another."""
        return [
            data
            for data, sent_from, sent_to in self.wiretap
            if (sent_from, sent_to) == (source.address, target.address)
        ]

    def is_whole(self) -> bool:
        up = [host for host in self.hosts.values() if host.is_up]
        return self.all_see(up, up, Reachability.ALIVE)

    def _later(self, action: Callable[[], None]) -> None:
        latency_s = LATENCY_S * (0.5 + self.random.random())
        heapq.heappush(self._queue, (self.now + latency_s, next(self._num), action))

    def _settle(self, host: Host) -> None:
        engine = host.engine
        if engine.wants_seeds(self.now):
            engine.seed(host.seeds, self.now)
        for data, target in engine.datagrams_to_send():
            assert len(data) <= self.parameters.datagram_bytes
            self.wiretap.append((data, host.address, target))
            del self.wiretap[:-20_000]
            if (
                self.datagrams_work
                and self.random.random() >= self.loss
                and len(data) <= self.mtu_bytes
                and not self.is_cut(host.address, target)
                and not self.is_filtered(host.address, target)
            ):
                self._later(lambda data=data, target=target: self._deliver(data, host.address, target))  # type: ignore[misc]
        while (action := engine.next_stream_action()) is not None:
            self._act(host, action)
        while (event := engine.next_event()) is not None:
            host.events.append((self.now, event))

    def _deliver(self, data: bytes, source: Address, target: Address) -> None:
        host = self.hosts.get(target)
        if host is None or not host.is_up:
            return
        if host.is_stopped:
            host.held.append((data, source))
            return
        host.engine.handle_datagram(data, source, self.now)
        self._settle(host)

    def _act(self, host: Host, action: StreamAction) -> None:
        here = (host.address, action.stream_id)
        if isinstance(action, OpenStream):
            self._later(lambda: self._connect(host, action))
        elif isinstance(action, SendStream):
            self._later_in_order(here, action.data)
        elif isinstance(action, CloseStream):
            self._later_in_order(here, None)

    def _connect(self, host: Host, action: OpenStream) -> None:
        peer = self.hosts.get(action.address)
        is_through = self.streams_work and not self.is_cut(host.address, action.address)
        is_through = is_through and not self.is_cut(action.address, host.address)
        stream_id = None
        if peer is not None and peer.is_up and not peer.is_stopped and is_through:
            stream_id = peer.engine.handle_stream_accepted(host.address, self.now)
        if peer is None or stream_id is None:
            host.engine.handle_stream_closed(action.stream_id, self.now)
            self._settle(host)
            return
        self._peers[host.address, action.stream_id] = (peer.address, stream_id)
        self._peers[peer.address, stream_id] = (host.address, action.stream_id)
        host.engine.handle_stream_opened(action.stream_id, self.now)
        self._settle(peer)
        self._settle(host)

    def _later_in_order(self, here: tuple[Address, int], data: bytes | None) -> None:
        heapq.heappush(
            self._queue, (self.now + 2 * LATENCY_S, next(self._num), lambda: self._carry(here, data))
        )

    def _carry(self, here: tuple[Address, int], data: bytes | None) -> None:
        there = self._peers.get(here)
        if there is None or self.is_cut(here[0], there[0]):
            return
        host = self.hosts[there[0]]
        if not host.is_up or host.is_stopped:
            return
        if data is None:
            self._peers.pop(here, None)
            self._peers.pop(there, None)
            host.engine.handle_stream_closed(there[1], self.now)
        else:
            middle = self.random.randrange(len(data) + 1)
            for part in (data[:middle], data[middle:]):
                host.engine.handle_stream_data(there[1], part, self.now)
        self._settle(host)


def joined(
    count: int, seed: int = 0, *, parameters: Parameters | None = None, within_s: float = 30.0
) -> Link:
    """Return a link with ``count`` hosts that all see each other alive."""
    link = Link(seed, parameters=parameters)
    for number in range(count):
        link.add(number)
    link.run(within_s, until=link.is_whole)
    assert link.is_whole(), f"seed {seed}: fleet did not form"
    return link
