"""A simulated host as the wire sees it, and its ends of streams."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Protocol

from gpumesh.model import Address


class Port(Protocol):
    """A host as the wire sees it: its kernel, with or without a daemon behind."""

    @property
    def number(self) -> int:
        """The host's number."""
        ...

    @property
    def address(self) -> Address:
        """Where its daemon listens, for datagrams and streams alike."""
        ...

    @property
    def is_up(self) -> bool:
        """Whether its kernel runs: not powered off, not asleep."""
        ...

    @property
    def is_listening(self) -> bool:
        """Whether its daemon holds its sockets, be it stopped or not."""
        ...

    def deliver_datagram(self, data: bytes, source: Address) -> None:
        """Take one datagram off the wire."""
        ...

    def deliver_unreachable(self, address: Address) -> None:
        """Take the word of a peer's kernel that nobody listens there."""
        ...

    def deliver_accept(self, end: End, source: Address) -> None:
        """Take a connection; the daemon behind will accept or refuse it when it runs."""
        ...

    def deliver_opened(self, end: End) -> None:
        """Take the word that the stream it asked for stands."""
        ...

    def deliver_data(self, end: End, data: bytes) -> None:
        """Take bytes in the order in which they were sent."""
        ...

    def deliver_closed(self, end: End) -> None:
        """Take the word that the stream has ended, failed or never stood."""
        ...


class Signal(Enum):
    """What a stream carries beside bytes, in order with them."""

    ESTABLISHED = "established"
    ENDED = "ended"


class End:
    """One host's end of a stream."""

    __slots__ = ("is_open", "outgoing", "peer", "port", "stream_id")

    def __init__(self, port: Port, stream_id: int | None) -> None:
        self.port = port
        self.stream_id = stream_id
        """The engine's number for it; None until the daemon accepted."""
        self.is_open = True
        """Whether this side still takes input."""
        self.peer: End | None = None
        self.outgoing: deque[tuple[float, bytes | Signal]] = deque()
        """What is on its way to the peer, and when it can be there at the earliest."""
