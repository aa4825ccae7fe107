"""What a simulated host runs: the daemon's engine behind one face, whether a bare Swim or a whole Mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from gpumesh.model import Address, Event, HealthReport, HostState, Identity, Phase
from gpumesh.swim.ports import MemberView, StreamAction, SwimEvent


@dataclass(frozen=True, slots=True)
class Known:
    """What a node shows of one host beyond membership."""

    state: HostState
    phase: Phase
    said: Mapping[str, object]
    """What that host says of itself, as held here, by name; equal values mean equal words."""


class Node(Protocol):
    """One host's brain as the simulator drives it; the calls are those that the daemon's shell makes.

    ``now`` is the host's own clock in seconds.
    """

    def seed(self, addresses: Sequence[Address], now: float) -> None:
        """Take addresses at which peers may be."""
        ...

    def wants_seeds(self, now: float) -> bool:
        """Whether it is time to look for peers again."""
        ...

    def handle_datagram(self, data: bytes, source: Address, now: float) -> None:
        """Take one datagram."""
        ...

    def handle_unreachable(self, address: Address, now: float) -> None:
        """Take the word of a kernel that nobody listens at ``address``."""
        ...

    def handle_stream_accepted(self, source: Address, now: float) -> int | None:
        """Return the number for a new stream, or None to refuse it."""
        ...

    def handle_stream_opened(self, stream_id: int, now: float) -> None:
        """Take the word that an asked-for stream stands."""
        ...

    def handle_stream_data(self, stream_id: int, data: bytes, now: float) -> None:
        """Take bytes of a stream, in any chunks."""
        ...

    def handle_stream_closed(self, stream_id: int, now: float) -> None:
        """Take the word that a stream has ended or never stood."""
        ...

    def handle_timer(self, now: float) -> None:
        """Do what has fallen due."""
        ...

    def next_deadline(self) -> float | None:
        """Return when ``handle_timer`` is next needed."""
        ...

    def datagrams_to_send(self) -> list[tuple[bytes, Address]]:
        """Drain what is to be sent."""
        ...

    def next_stream_action(self) -> StreamAction | None:
        """Drain what is to be done to streams."""
        ...

    def next_change(self) -> SwimEvent | None:
        """Drain what changed in its belief."""
        ...

    def leave(self, now: float) -> None:
        """Say goodbye."""
        ...

    def set_health(self, report: HealthReport, now: float) -> None:
        """Take what the host's health layer concludes."""
        ...

    def members(self) -> Sequence[MemberView]:
        """Return its member table, itself included."""
        ...

    def next_event(self) -> Event | None:
        """Drain what it tells people."""
        ...

    def knowledge(self, now: float) -> Mapping[str, Known]:
        """Return, per host id, what it shows of that host beyond membership; empty for bare membership."""
        ...

    def ranking(self, key: str, now: float) -> tuple[str, ...] | None:
        """Return the hosts on which it would place ``key``, in order; None when it suspects itself."""
        ...

    @property
    def counters(self) -> Mapping[str, int]:
        """Its counters."""
        ...

    def queues(self) -> Mapping[str, tuple[int, int]]:
        """Return the present size and the bound of each of its queues and tables."""
        ...


class NodeBuilder(Protocol):
    """Makes the brain of one daemon run."""

    def __call__(
        self, *, identity: Identity, address: Address, random: Random, now: float, unix_offset: float
    ) -> Node:
        """Return a node that has just started."""
        ...
