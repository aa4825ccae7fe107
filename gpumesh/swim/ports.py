"""What the membership engine asks of, and tells to, those around it.

:class:`Passenger` is who rides along on its messages (the records engine); the stream actions and events
are what a shell (the daemon or the simulator) carries out and reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gpumesh.model import Address, Reachability


class Passenger(Protocol):
    """Who rides along on pings, acks, gossip and syncs; never sees a socket, a key or a clock.

    Every ``bytes`` coming in has been authenticated, yet may be absurd: an implementation drops and counts,
    it never raises.
    """

    def digest_to_send(self, now: float) -> bytes:
        """Return at most 64 bytes that ride on each ping and ack."""
        ...

    def handle_digest(self, host_id: str, digest: bytes, now: float) -> None:
        """Take the digest that ``host_id`` sent of itself and of what it knows."""
        ...

    def has_updates(self) -> bool:
        """Return whether :meth:`updates_to_send` has any."""
        ...

    def updates_to_send(self, limit_bytes: int, num_members: int) -> list[bytes]:
        """Return updates to gossip now, together at most ``limit_bytes`` (3 bytes of framing each)."""
        ...

    def handle_update(self, update: bytes, now: float) -> None:
        """Take one update that a peer passed on."""
        ...

    def wants_sync_with(self, now: float) -> str | None:
        """Return the host to run a stream sync with now, if digests showed a lasting difference."""
        ...

    def outline_to_send(self, num_buckets: int) -> Sequence[int]:
        """Return a mark of 64 bits for each bucket of hosts; equal marks mean that the same is held."""
        ...

    def summary_to_send(self, outline: Sequence[int]) -> bytes:
        """Return what is known of the records in which a peer with this outline differs, versions only.

        Empty when it differs in none.
        """
        ...

    def pages_to_send(self, summary: bytes) -> list[bytes]:
        """Return pages (at most 64 KiB each) of entries that the peer with this summary lacks."""
        ...

    def handle_page(self, page: bytes, now: float) -> None:
        """Take one page of entries from a stream sync."""
        ...

    def forget(self, host_id: str) -> None:
        """Drop the record of a member that was reaped."""
        ...


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Connect to ``address``; answer with ``handle_stream_opened`` or ``handle_stream_closed``."""

    stream_id: int
    address: Address


@dataclass(frozen=True, slots=True)
class SendStream:
    """Write ``data`` to the stream."""

    stream_id: int
    data: bytes


@dataclass(frozen=True, slots=True)
class CloseStream:
    """Close the stream once what was written has gone out; no further input is taken for it."""

    stream_id: int


StreamAction = OpenStream | SendStream | CloseStream


@dataclass(frozen=True, slots=True)
class MemberChanged:
    """A member was met, or its reachability, address or epoch changed in the engine's belief."""

    host_id: str
    address: Address
    epoch: int
    incarnation: int
    before: Reachability | None
    """None when the member was not known."""
    after: Reachability
    reason: str
    """For people: who accused, what refuted, or why it was replaced; other hosts by their whole ids."""
    is_new_epoch: bool = False
    """The host's daemon started again."""
    accusers: tuple[str, ...] = ()
    """Ids of those who hold the member suspect or failed."""


@dataclass(frozen=True, slots=True)
class MemberForgotten:
    """A failed or left member was reaped from the table."""

    host_id: str


@dataclass(frozen=True, slots=True)
class EpochOvertaken:
    """The fleet remembered a later run of this host than its own state did; it goes on above that one."""

    remembered: int
    epoch: int
    """This host's epoch from now on: worth keeping."""


@dataclass(frozen=True, slots=True)
class SelfAccused:
    """Others suspected this host or held it failed; it has refuted by raising its incarnation."""

    incarnation: int
    held: Reachability
    """What they held: ``suspect`` or ``failed`` (then a cooldown is owed)."""
    accuser: str


@dataclass(frozen=True, slots=True)
class IdentityConflict:
    """Two daemons claim one identity, or two hosts one address: this host's, or that of others."""

    host_id: str
    """Whose identity two claim; of two hosts at one address the one that does not have it, else the other."""
    address: Address
    reason: str
    is_of_address: bool = False
    """Two hosts have one address; else two daemons have one identity."""
    is_here: bool = False
    """It is this host's own."""


SwimEvent = MemberChanged | MemberForgotten | SelfAccused | EpochOvertaken | IdentityConflict


class MemberView(NamedTuple):
    """One row of the member table, as published: a tuple, since each beat makes a fleet's worth of them."""

    host_id: str
    address: Address
    epoch: int
    incarnation: int
    reachability: Reachability
    since_at: float
    """When this reachability began here."""
    evidence_at: float
    """Last evidence of life: a direct answer, fresh word through the fleet, or an unaccused alive status."""
    beat: int
    """The newest heartbeat number heard of it."""
    transport: str = "udp"
