"""Who may stand at a listener, how many, and for how long without having asked for anything whole.

The HTTP server gives each connection a descriptor and all the time in the world (slowloris). Descriptors are
what heartbeats and the prober need too: so connections are bounded, and who sends no whole request within
:data:`PATIENCE_S` is hung up on, first of all when somebody else wants in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

PATIENCE_S: Final = 10.0
"""From a connection to the beginning of its first answer: header and body of the request must be in."""


class Doorkeeper:
    """Makes the protocol of each connection of one listener; at most ``limit`` at a time.

    ``make_handler`` is the HTTP server; :meth:`note_answer` belongs into the application's
    ``on_response_prepare``.
    """

    def __init__(
        self, make_handler: Callable[[], asyncio.Protocol], limit: int, patience_s: float = PATIENCE_S
    ) -> None:
        self._make_handler = make_handler
        self._limit = limit
        self._patience_s = patience_s
        self._doors: dict[asyncio.BaseTransport, _Door] = {}

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol for one more connection."""
        return _Door(self, self._make_handler())

    def __len__(self) -> int:
        return len(self._doors)

    async def note_answer(self, request: web.Request, _response: web.StreamResponse) -> None:
        """Note that a connection has sent a whole request: it may stay."""
        door = self._doors.get(request.transport) if request.transport is not None else None
        if door is not None:
            door.stop_waiting()

    def admit(self, door: _Door, transport: asyncio.Transport) -> bool:
        """Let a connection in, if need be in place of the one that has waited longest."""
        if len(self._doors) >= self._limit:
            idle = next((other for other in self._doors.values() if other.is_waiting), None)
            if idle is None:
                return False
            idle.hang_up()
        self._doors[transport] = door
        door.start_waiting(self._patience_s)
        return True

    def forget(self, transport: asyncio.BaseTransport) -> None:
        """Let go of a connection that has ended."""
        self._doors.pop(transport, None)


class _Door(asyncio.Protocol):
    """One connection: passes everything on to the HTTP server's own protocol."""

    def __init__(self, keeper: Doorkeeper, handler: asyncio.Protocol) -> None:
        self._keeper = keeper
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        return self._timer is not None

    def start_waiting(self, patience_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(patience_s, self.hang_up)

    def stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def hang_up(self) -> None:
        self.stop_waiting()
        if self._transport is not None:
            self._keeper.forget(self._transport)
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if self._keeper.admit(self, transport):
            self._transport = transport
            self._handler.connection_made(transport)
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received() if self._transport is not None else None

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_waiting()
        if self._transport is not None:
            self._keeper.forget(self._transport)
            self._handler.connection_lost(exc)
