from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from gpumesh.model import Address, Event, HealthReport, Identity, Reachability
from gpumesh.sim.conditions import LinkProfile
from gpumesh.sim.node import Known
from gpumesh.sim.watch import Watch
from gpumesh.sim.world import World
from gpumesh.swim.ports import MemberView, StreamAction, SwimEvent


class FakeNode:
    """Notes every call with the host's clock and says what a test puts into its mouth."""

    def __init__(self, identity: Identity, address: Address, now: float, draw: float) -> None:
        self.identity = identity
        self.address = address
        self.draw = draw
        self.calls: list[tuple[Any, ...]] = []
        self.deadline: float | None = None
        self.outbox: list[tuple[bytes, Address]] = []
        self.actions: list[StreamAction] = []
        self.changes: list[SwimEvent] = []
        self.rows = [
            MemberView(identity.host_id, address, identity.epoch, 0, Reachability.ALIVE, now, now, 0),
        ]
        self.known: dict[str, Known] = {}
        self.events: list[Event] = []
        self.order: tuple[str, ...] | None = ()
        self.sizes: dict[str, tuple[int, int]] = {}
        self.next_stream_id = 0
        self.refuses = False
        self.hungry = False
        self.is_stuck = False
        self.num_steps = 0
        """What a datagram makes it do."""

    def seen(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]

    def seed(self, addresses: Sequence[Address], now: float) -> None:
        self.calls.append(("seed", tuple(addresses), now))

    def wants_seeds(self, now: float) -> bool:
        return self.hungry

    def handle_datagram(self, data: bytes, source: Address, now: float) -> None:
        self.calls.append(("datagram", data, source, now))
        for _ in range(self.num_steps // 2):
            abs(1)

    def handle_unreachable(self, address: Address, now: float) -> None:
        self.calls.append(("unreachable", address, now))

    def handle_stream_accepted(self, source: Address, now: float) -> int | None:
        self.calls.append(("accepted", source, now))
        if self.refuses:
            return None
        self.next_stream_id += 1
        return 1000 + self.next_stream_id

    def handle_stream_opened(self, stream_id: int, now: float) -> None:
        self.calls.append(("opened", stream_id, now))

    def handle_stream_data(self, stream_id: int, data: bytes, now: float) -> None:
        self.calls.append(("data", stream_id, data, now))

    def handle_stream_closed(self, stream_id: int, now: float) -> None:
        self.calls.append(("closed", stream_id, now))

    def handle_timer(self, now: float) -> None:
        self.calls.append(("timer", now))
        if not self.is_stuck:
            self.deadline = None

    def next_deadline(self) -> float | None:
        return self.deadline

    def datagrams_to_send(self) -> list[tuple[bytes, Address]]:
        out, self.outbox = self.outbox, []
        return out

    def next_stream_action(self) -> StreamAction | None:
        return self.actions.pop(0) if self.actions else None

    def next_change(self) -> SwimEvent | None:
        return self.changes.pop(0) if self.changes else None

    def leave(self, now: float) -> None:
        self.calls.append(("leave", now))

    def set_health(self, report: HealthReport, now: float) -> None:
        self.calls.append(("health", report, now))

    def members(self) -> Sequence[MemberView]:
        return self.rows

    def next_event(self) -> Event | None:
        return self.events.pop(0) if self.events else None

    def knowledge(self, now: float) -> Mapping[str, Known]:
        return self.known

    def ranking(self, key: str, now: float) -> tuple[str, ...] | None:
        return self.order

    @property
    def counters(self) -> Mapping[str, int]:
        return {}

    def queues(self) -> Mapping[str, tuple[int, int]]:
        return self.sizes


def build_fake(
    *, identity: Identity, address: Address, random: Random, now: float, unix_offset: float
) -> FakeNode:
    return FakeNode(identity, address, now, random.random())


class FakeWorld(World):
    """A world of fake nodes."""

    def node(self, number: int) -> FakeNode:
        node = self.hosts[number].node
        assert isinstance(node, FakeNode)
        return node

    def say(self, number: int, *changes: SwimEvent) -> None:
        """Let a host's node tell changes in its next turn."""
        self.node(number).changes.extend(changes)
        self.hosts[number].deliver_unreachable(Address("0.0.0.0", 1))

    def send(self, source: int, target: int, data: bytes = b"x") -> None:
        self.node(source).outbox.append((data, self.hosts[target].address))
        self.hosts[source].deliver_unreachable(Address("0.0.0.0", 1))

    def act(self, number: int, *actions: StreamAction) -> None:
        self.node(number).actions.extend(actions)
        self.hosts[number].deliver_unreachable(Address("0.0.0.0", 1))

    def begin(self) -> FakeWorld:
        for host in self.hosts:
            self.start(host)
        return self


MakeWorld = Callable[..., FakeWorld]


@pytest.fixture
def make_world() -> MakeWorld:
    """Make a started world of fake nodes, without jitter unless asked for."""

    def make(
        num_hosts: int = 2,
        *,
        link: LinkProfile | None = None,
        watches: Sequence[Watch] = (),
        seed: int = 1,
        metered_share: int = 0,
    ) -> FakeWorld:
        link = link or LinkProfile(latency_s=0.01, jitter_s=0.0)
        world = FakeWorld(
            seed=seed,
            num_hosts=num_hosts,
            build=build_fake,
            link=link,
            watches=watches,
            metered_share=metered_share,
        )
        return world.begin()

    return make
