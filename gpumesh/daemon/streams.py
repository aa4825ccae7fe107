"""Gossip streams over TCP: carries out the engine's stream actions and feeds it what arrives.

Knows no message: bytes go in and out, the engine frames, authenticates and bounds them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final, Protocol

from gpumesh.daemon.addresses import from_kernel
from gpumesh.model import Address
from gpumesh.swim.ports import CloseStream, OpenStream, SendStream, StreamAction

CONNECT_TIMEOUT_S: Final = 10.0
SEGMENT_BYTES: Final = 1220
"""Largest segment, both ways: with its headers the 1,280 bytes that each path of IPv6 carries.

A path that swallows larger packets and does not say so would hold up for ever what a stream brings, while all
that is small gets through."""
LINGER_S: Final = 5.0
"""How long a closed stream may take to get its last bytes out."""


class StreamEngine(Protocol):
    """The part of the engine that streams talk to."""

    def handle_stream_accepted(self, source: Address, now: float) -> int | None:
        """Take a new stream; None refuses it."""
        ...

    def handle_stream_opened(self, stream_id: int, now: float) -> None:
        """Hear that a connection asked for stands."""
        ...

    def handle_stream_data(self, stream_id: int, data: bytes, now: float) -> None:
        """Take bytes, in any chunking."""
        ...

    def handle_stream_closed(self, stream_id: int, now: float) -> None:
        """Hear that a stream ended or could not be opened."""
        ...


class Streams:
    """All gossip streams of this daemon, by the engine's stream id."""

    def __init__(self, engine: StreamEngine, clock: Callable[[], float], pump: Callable[[], None]) -> None:
        self._engine = engine
        self._clock = clock
        self._pump = pump
        self._links: dict[int, _Link] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._server: asyncio.AbstractServer | None = None
        self._last_lost: asyncio.Event | None = None

    async def listen(self, bind: Address) -> None:
        """Accept streams on ``bind``. Errors: OSError if the address is taken."""
        listener = socket.socket(socket.AF_INET6 if ":" in bind.host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)  # for all it accepts
            if ":" in bind.host:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind((bind.host, bind.port))
            self._server = await asyncio.get_running_loop().create_server(
                lambda: _Link(self, None), sock=listener
            )
        except OSError:
            listener.close()
            raise

    def carry_out(self, action: StreamAction) -> None:
        """Do what the engine asks; what cannot be done comes back as ``handle_stream_closed``."""
        if isinstance(action, OpenStream):
            task = asyncio.get_running_loop().create_task(self._connect(action))
            self._connecting[action.stream_id] = task
        elif isinstance(action, SendStream):
            if (link := self._links.get(action.stream_id)) is not None:
                link.write(action.data)
        elif isinstance(action, CloseStream):
            self._close(action.stream_id)

    async def close(self) -> None:
        """Close the listener and every stream, and wait for them."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connecting.values()):
            task.cancel()
        await asyncio.gather(*self._connecting.values(), return_exceptions=True)
        for stream_id in list(self._links):
            self._close(stream_id)
        if self._links:
            self._last_lost = asyncio.Event()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._last_lost.wait(), LINGER_S)
        for link in list(self._links.values()):
            link.abort()

    async def _connect(self, action: OpenStream) -> None:
        try:
            await asyncio.wait_for(self._call(action), CONNECT_TIMEOUT_S)
        except (OSError, asyncio.TimeoutError):
            self._engine.handle_stream_closed(action.stream_id, self._clock())
            self._pump()
        finally:
            self._connecting.pop(action.stream_id, None)

    async def _call(self, action: OpenStream) -> None:
        loop = asyncio.get_running_loop()
        address = action.address
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        caller = socket.socket(family, socket.SOCK_STREAM)
        try:
            caller.setblocking(False)  # noqa: FBT003 - the standard library's own signature
            caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
            await loop.sock_connect(caller, (address.host, address.port))
            await loop.create_connection(lambda: _Link(self, action.stream_id), sock=caller)
        except BaseException:
            caller.close()
            raise

    def _close(self, stream_id: int) -> None:
        if (task := self._connecting.pop(stream_id, None)) is not None:
            task.cancel()
        if (link := self._links.get(stream_id)) is not None:
            link.finish()

    # What links report.

    def link_made(self, link: _Link, source: Address) -> int | None:
        """Register a connection; returns its stream id, or None if the engine refuses it."""
        now = self._clock()
        if link.stream_id is None:
            stream_id = self._engine.handle_stream_accepted(source, now)
            if stream_id is None:
                return None
            self._links[stream_id] = link
        else:
            stream_id = link.stream_id
            self._links[stream_id] = link
            self._engine.handle_stream_opened(stream_id, now)
        return stream_id

    def link_received(self, stream_id: int, data: bytes) -> None:
        """Pass bytes on."""
        self._engine.handle_stream_data(stream_id, data, self._clock())
        self._pump()

    def link_lost(self, stream_id: int) -> None:
        """Forget a stream and tell the engine, which may know already."""
        if self._links.pop(stream_id, None) is not None:
            if self._last_lost is not None and not self._links:
                self._last_lost.set()
            self._engine.handle_stream_closed(stream_id, self._clock())
            self._pump()

    def link_ready(self) -> None:
        """Let the engine's first words out."""
        self._pump()


class _Link(asyncio.Protocol):
    """One TCP connection."""

    def __init__(self, streams: Streams, stream_id: int | None) -> None:
        self.stream_id = stream_id
        self._streams = streams
        self._transport: asyncio.Transport | None = None
        self._is_finished = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername") or ("", 0)
        self.stream_id = self._streams.link_made(self, from_kernel(str(peer[0]), int(peer[1])))
        if self.stream_id is None:
            transport.abort()
        else:
            self._streams.link_ready()

    def data_received(self, data: bytes) -> None:
        if self.stream_id is not None and not self._is_finished:
            self._streams.link_received(self.stream_id, data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio names it
        self._transport = None  # one that is closed can be cut off no more
        if self.stream_id is not None:
            self._streams.link_lost(self.stream_id)

    def write(self, data: bytes) -> None:
        """Send bytes; the engine bounds how many may wait."""
        if self._transport is not None and not self._is_finished:
            self._transport.write(data)

    def finish(self) -> None:
        """Close once what was written is out; cut off after :data:`LINGER_S`."""
        self._is_finished = True
        if self._transport is not None:
            self._transport.close()
            asyncio.get_running_loop().call_later(LINGER_S, self.abort)

    def abort(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()
