"""The loop around the engine: feed all that waits, run what is due, send, re-arm. Nothing else.

The order is the point. After a stall the peers' answers are already in the socket's buffer; were timers to
run first, the engine would accuse peers that had answered in time (akka PR 30335, consul#916).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from gpumesh.daemon.sockets import GossipSocket
from gpumesh.daemon.streams import StreamEngine, Streams
from gpumesh.model import Address
from gpumesh.swim.ports import StreamAction

MAX_SLEEP_S: Final = 1.0
"""Longest wait between looks at the clock: in suspend asyncio's stands still, the engine's does not."""
_SAME_S: Final = 0.001
"""Deadlines closer than this are one: as fine as the event loop waits."""


class Engine(StreamEngine, Protocol):
    """What the shell drives."""

    def handle_datagram(self, data: bytes, source: Address, now: float) -> None:
        """Take one datagram."""
        ...

    def handle_unreachable(self, address: Address, now: float) -> None:
        """Hear that nobody listens at ``address``."""
        ...

    def handle_timer(self, now: float) -> None:
        """Do what is due."""
        ...

    def next_deadline(self) -> float | None:
        """Return when something is due next, on the boot clock."""
        ...

    def datagrams_to_send(self) -> list[tuple[bytes, Address]]:
        """Hand over what is to be sent."""
        ...

    def next_stream_action(self) -> StreamAction | None:
        """Hand over the next thing to do to a stream."""
        ...


class Shell:
    """Runs one engine on one socket until closed.

    ``on_progress`` is called after each round in which timers ran, so that the watchdog is fed by the
    engine's own progress; ``on_output`` after each round, for events.
    """

    def __init__(
        self,
        engine: Engine,
        socket: GossipSocket,
        clock: Callable[[], float],
        *,
        on_progress: Callable[[], None],
        on_output: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._socket = socket
        self._clock = clock
        self._on_progress = on_progress
        self._on_output = on_output
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.streams = Streams(engine, clock, self.pump)

    async def start(self) -> None:
        """Listen for streams and datagrams. Errors: OSError if the port is taken."""
        await self.streams.listen(self._socket.address)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._readable)
        self._run_timers()

    async def close(self) -> None:
        """Stop; what the engine wanted to say last has been sent."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        await self.streams.close()
        self._socket.close()

    def pump(self) -> None:
        """Send what the engine has to send, carry out its stream actions, and arm the timer."""
        if self._is_closed:
            return
        for data, target in self._engine.datagrams_to_send():
            self._socket.send(data, target)
        while (action := self._engine.next_stream_action()) is not None:
            self.streams.carry_out(action)
        self._on_output()
        self._arm()

    def _readable(self) -> None:
        self._drain(is_told=True)
        self.pump()

    def _drain(self, *, is_told: bool) -> None:
        """Take all that waits. ``is_told``: the kernel said that something does; if no datagram, an error."""
        for data, source in self._socket.receive_all():
            self._engine.handle_datagram(data, source, self._clock())
            is_told = False
        for refused in self._socket.refused_peers(is_likely=is_told):
            self._engine.handle_unreachable(refused, self._clock())

    def _run_timers(self) -> None:
        if self._timer is not None:
            self._timer.cancel()  # else one armed before the start would go on beside the next for ever
            self._timer = None
        self._drain(is_told=False)
        now = self._clock()
        deadline = self._engine.next_deadline()
        if deadline is not None and deadline <= now:
            self._engine.handle_timer(now)
        self._on_progress()
        self.pump()

    def _arm(self) -> None:
        deadline = self._engine.next_deadline()
        delay_s = MAX_SLEEP_S if deadline is None else min(MAX_SLEEP_S, max(0.0, deadline - self._clock()))
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            # A timer left standing for a deadline that has moved on wakes the daemon for nothing. One that is
            # due is left alone, or each datagram of a flood would put it off.
            left_s = self._timer.when() - loop.time()
            if left_s <= 0.0 or abs(left_s - delay_s) < _SAME_S:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay_s, self._run_timers)
