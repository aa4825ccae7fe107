"""Drives one engine by what was drawn, as a shell would, and holds it to what must hold after each input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Final, Protocol

from gpumesh.config import Config
from gpumesh.daemon.shell import Engine as ShellEngine
from gpumesh.errors import RejectedError
from gpumesh.mesh.engine import Mesh
from gpumesh.model import Address, HostFacts, Identity, Reachability
from gpumesh.swim.engine import Swim
from gpumesh.swim.frames import encode
from gpumesh.swim.parameters import LAN
from gpumesh.swim.ports import CloseStream, MemberView, OpenStream
from gpumesh.swim.seal import FleetSealer
from gpumesh.swim.stream import CHALLENGE_BYTES, Channel
from gpumesh.swim.wire import Ping, PingReq, decode
from tests.fuzz import words
from tests.fuzz.draw import Draw
from tests.swim.link import KEY, QuietPassenger

FLEET: Final = "default"
MAX_INPUTS: Final = 40
DRAINED: Final = frozenset({"events", "outbox", "stream_actions", "changes"})
WAITS_S: Final = (0.0, 0.1, 0.6, 1.0, 5.0, 31.0, 400.0)


Meter = Callable[[str, int], AbstractContextManager[object]]
"""Watches over what happens while a ``datagram`` or a ``stream`` of so many bytes is taken in."""


def unmetered(kind: str, size: int) -> AbstractContextManager[object]:
    """Watch over nothing."""
    del kind, size
    return nullcontext()


class Engine(ShellEngine, Protocol):
    """What is driven: membership alone, or the whole brain of a host."""

    def next_event(self) -> object:
        """Return what happened, None when nothing more did."""
        ...

    def members(self) -> Sequence[MemberView]:
        """Return the member table."""
        ...

    @property
    def queue_sizes(self) -> Mapping[str, int]:
        """How much each store holds."""
        ...

    @property
    def queue_limits(self) -> Mapping[str, int]:
        """How much each store may hold."""
        ...

    @property
    def counters(self) -> Mapping[str, int]:
        """What was counted."""
        ...


def bare() -> Swim:
    """Return membership alone."""
    return Swim(
        identity=Identity(words.IDS[0], "host", 1, "boot"),
        address=words.ADDRESSES[0],
        fleet=FLEET,
        parameters=LAN,
        sealer=FleetSealer(KEY, FLEET, bytes([1] * 16)),
        passenger=QuietPassenger(),
        random=Random(1),
        now=0.0,
    )


def whole() -> Mesh:
    """Return the whole brain of a host."""
    return Mesh(
        identity=Identity(words.IDS[0], "host", 1, "boot"),
        config=Config(),
        facts=HostFacts("host", "boot"),
        address=words.ADDRESSES[0],
        sealer=FleetSealer(KEY, FLEET, bytes([1] * 16)),
        random=Random(1),
        now=0.0,
        unix_offset=1.8e9,
    )


class Driver:
    """One engine, and a member of its fleet that says whatever was drawn."""

    def __init__(self, engine: Engine, data: bytes, meter: Meter = unmetered) -> None:
        self._engine = engine
        self._meter = meter
        self._draw = Draw(data)
        self._now = 0.0
        self._liar = FleetSealer(KEY, FLEET, bytes([2] * 16))
        self._channels: dict[int, Channel] = {}
        self._seqs: list[int] = []
        self._seen: dict[str, tuple[int, int]] = {}
        self._own = (0, 0)

    def run(self) -> None:
        """Feed all that was drawn. AssertionError: something did not hold; anything else: it raised."""
        inputs = (
            self._send_datagram,
            self._send_datagram,
            self._send_raw,
            self._wait,
            self._refuse,
            self._open_stream,
            self._speak,
            self._speak,
            self._speak_raw,
            self._hang_up,
        )
        for _ in range(MAX_INPUTS):
            if self._draw.is_over:
                break
            self._draw.chosen(inputs)()
            self._drain()
            self._look()

    def _source(self) -> Address:
        return self._draw.chosen(words.ADDRESSES)

    def _send_datagram(self) -> None:
        body = words.datagram(self._draw, self._seqs)
        self._hand(self._liar.seal(body))

    def _send_raw(self) -> None:
        self._hand(self._liar.seal(self._draw.blob()))

    def _hand(self, data: bytes) -> None:
        source = self._source()
        with self._meter("datagram", len(data)):
            self._engine.handle_datagram(data, source, self._now)

    def _wait(self) -> None:
        self._now += self._draw.chosen(WAITS_S)
        self._engine.handle_timer(self._now)

    def _refuse(self) -> None:
        self._engine.handle_unreachable(self._source(), self._now)

    def _open_stream(self) -> None:
        stream_id = self._engine.handle_stream_accepted(self._source(), self._now)
        if stream_id is not None:
            self._channels[stream_id] = self._channel(is_opener=True)
            self._hand_stream(stream_id, self._channels[stream_id].preamble())

    def _hand_stream(self, stream_id: int, data: bytes) -> None:
        with self._meter("stream", len(data)):
            self._engine.handle_stream_data(stream_id, data, self._now)

    def _channel(self, *, is_opener: bool) -> Channel:
        challenge = bytes([len(self._channels) % 250 + 3] * CHALLENGE_BYTES)
        return Channel(self._liar, challenge, LAN.stream_bytes, is_opener=is_opener)

    def _speak(self) -> None:
        self._say(encode(words.frame(self._draw)))

    def _speak_raw(self) -> None:
        self._say(self._draw.blob())

    def _say(self, body: bytes) -> None:
        ready = [stream_id for stream_id, channel in self._channels.items() if channel.is_ready]
        if ready:
            stream_id = self._draw.chosen(ready)
            self._hand_stream(stream_id, self._channels[stream_id].seal(body))

    def _hang_up(self) -> None:
        if self._channels:
            stream_id = self._draw.chosen(list(self._channels))
            del self._channels[stream_id]
            self._engine.handle_stream_closed(stream_id, self._now)

    def _drain(self) -> None:
        """Carry out what the engine wants, and learn what it asks."""
        for data, _ in self._engine.datagrams_to_send():
            assert len(data) <= LAN.datagram_bytes, "a datagram is larger than it may be"
            asked = decode(_opened(data)).primary
            if isinstance(asked, Ping | PingReq):
                self._seqs = [*self._seqs[-20:], asked.seq]
        while (action := self._engine.next_stream_action()) is not None:
            if isinstance(action, OpenStream):
                self._channels[action.stream_id] = self._channel(is_opener=False)
                self._engine.handle_stream_opened(action.stream_id, self._now)
                self._hand_stream(action.stream_id, self._channels[action.stream_id].preamble())
            elif isinstance(action, CloseStream):
                self._channels.pop(action.stream_id, None)
            elif (channel := self._channels.get(action.stream_id)) is not None:
                channel.feed(action.data)
        while self._engine.next_event() is not None:
            pass

    def _look(self) -> None:
        """Hold the engine to what must hold whatever it was told."""
        rows = self._engine.members()
        assert len({row.host_id for row in rows}) == len(rows), "a host stands in the table twice"
        own = next(row for row in rows if row.host_id == words.IDS[0])
        assert own.reachability is Reachability.ALIVE, "it believes its own death"
        assert (own.epoch, own.incarnation) >= self._own, "its own epoch or incarnation fell"
        self._own = (own.epoch, own.incarnation)
        for row in rows:
            if row is own:
                continue
            rank = (row.epoch, row.incarnation)
            assert self._seen.get(row.host_id, rank) <= rank, "an epoch or incarnation fell"
            self._seen[row.host_id] = rank
        limits = self._engine.queue_limits
        for name, size in self._engine.queue_sizes.items():
            limit = 0 if name.rpartition("/")[2] in DRAINED else limits[name]
            assert size <= limit, f"{name} holds {size}, more than {limit}"
        assert not any("transition" in name for name in self._engine.counters), (
            "an illegal transition was tried"
        )
        deadline = self._engine.next_deadline()
        assert deadline is not None, "it has nothing to do any more"


def _opened(data: bytes) -> bytes:
    reader = FleetSealer(KEY, FLEET, bytes([9] * 16))
    try:
        return reader.open(data).body
    except RejectedError as error:
        raise AssertionError(f"it sends what nobody can open: {error}") from error
