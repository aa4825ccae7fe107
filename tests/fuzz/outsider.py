"""What somebody without the fleet's key may try on a host that knows its fleet, and all that must stay."""

from __future__ import annotations

from typing import Final

from gpumesh.config.keyring import FleetKey, Keyring
from gpumesh.swim.frames import encode
from gpumesh.swim.member import Member
from gpumesh.swim.seal import FleetSealer
from gpumesh.swim.stream import CHALLENGE_BYTES, PREAMBLE_BYTES, Channel
from gpumesh.swim.suspicion import Suspicion
from tests.fuzz import words
from tests.fuzz.draw import Draw
from tests.fuzz.driver import FLEET, Meter, unmetered
from tests.fuzz.scene import Scene
from tests.swim.link import KEY

OTHER_KEY: Final = Keyring((FleetKey(bytes([9] * 32)),))
MAX_INPUTS: Final = 12


class Outsider:
    """Sends what was drawn: noise, forgeries, damaged and old recordings. It sees all and has no key."""

    def __init__(self, scene: Scene, data: bytes, meter: Meter = unmetered) -> None:
        self._scene = scene
        self._meter = meter
        self._engine = scene.engine
        self._data = data
        self._draw = Draw(data)
        session = bytes([8] * 16)
        self._forgers = (
            FleetSealer(OTHER_KEY, FLEET, session),
            FleetSealer(None, FLEET, session),
            # Who holds this key too is still of another fleet: the label is authenticated.
            FleetSealer(KEY, "elsewhere", session),
        )

    def run(self) -> None:
        """Try the bytes as they are, then all that they draw. AssertionError: something changed."""
        before = state(self._scene)
        self._send(self._data)
        self._stream(self._data)
        attempts = (
            self._noise,
            self._forge,
            self._damage,
            self._replay,
            self._reflect,
            self._open,
            self._open_again,
        )
        for _ in range(MAX_INPUTS):
            if self._draw.is_over:
                break
            self._draw.chosen(attempts)()
        assert state(self._scene) == before, "changed without the key"

    def _send(self, data: bytes) -> None:
        source = self._draw.chosen(words.ADDRESSES)
        with self._meter("datagram", len(data)):
            self._engine.handle_datagram(data, source, self._scene.now)

    def _noise(self) -> None:
        self._send(self._draw.blob(1500))

    def _forge(self) -> None:
        sealer = self._draw.chosen(self._forgers)
        self._send(sealer.seal(words.datagram(self._draw, [])))

    def _damage(self) -> None:
        self._send(self._damaged(self._draw.chosen((*self._scene.taken, *self._scene.sent))))

    def _damaged(self, recorded: bytes) -> bytes:
        changed = bytearray(recorded)
        changed[self._draw.integer(len(changed) - 1)] ^= 1 + self._draw.integer(254)
        return bytes(changed[: len(changed) - self._draw.integer(3)])

    def _replay(self) -> None:
        self._send(self._draw.chosen(self._scene.taken))

    def _reflect(self) -> None:
        self._send(self._draw.chosen(self._scene.sent))

    def _open(self) -> None:
        """Open a stream as a host of another key or fleet would; the id of this fleet's key is no secret."""
        sealer = self._draw.chosen(self._forgers)
        channel = Channel(sealer, bytes([4] * CHALLENGE_BYTES), 1 << 20, is_opener=True)
        channel.feed(Channel(sealer, bytes([1] * CHALLENGE_BYTES), 1 << 20, is_opener=False).preamble())
        opening = self._draw.chosen((channel.preamble(), self._scene.stream[:PREAMBLE_BYTES]))
        said = self._draw.chosen((channel.seal(encode(words.frame(self._draw))), self._draw.blob(1500)))
        self._stream(opening + said)

    def _open_again(self) -> None:
        recorded = self._scene.stream
        self._stream(
            self._draw.chosen(
                (recorded, recorded[: self._draw.integer(len(recorded))], self._damaged(recorded))
            )
        )

    def _stream(self, data: bytes) -> None:
        now, source = self._scene.now, self._draw.chosen(words.ADDRESSES)
        size = max(1, len(data) >> self._draw.integer(3))
        with self._meter("stream", len(data)):
            stream_id = self._engine.handle_stream_accepted(source, now)
            assert stream_id is not None, "streams of the past are still held"
            for start in range(0, len(data), size):
                self._engine.handle_stream_data(stream_id, data[start : start + size], now)
        while self._engine.next_stream_action() is not None:
            pass
        self._engine.handle_stream_closed(stream_id, now)


def state(scene: Scene) -> tuple[object, ...]:
    """Return all that somebody from outside might change, what is counted of drops apart."""
    engine = scene.engine
    context = engine._swim._context
    records = engine._records
    counted = {name: count for name, count in engine.counters.items() if not name.startswith("drops/")}
    return (
        engine.members(),
        [_slots(member) for member in context.table],
        {host_id: dict(records.entries(host_id)) for host_id in records.hosts()},
        engine.view(scene.now),
        (engine.epoch, context.incarnation, context.awareness.score, context.last_heard_at, context.beat),
        counted,
        engine.next_deadline(),
        engine.datagrams_to_send(),
        engine.next_event(),
    )


def _slots(held: Member | Suspicion) -> dict[str, object]:
    """Return what a row of the table holds, the accusers and the end of a suspicion included."""
    values = {name: getattr(held, name) for name in held.__slots__}
    if isinstance(held, Member) and held.suspicion is not None:
        values["suspicion"] = _slots(held.suspicion)
    elif isinstance(held, Suspicion):
        values["accusers"] = frozenset(held.accusers)
    return values
