"""What is fuzzed: each target takes bytes, and raises if something does not hold that must for any bytes.

No input may raise anything but the engine's own rejection, have more allocated than its bound, or change
anything without the fleet's key. ``make fuzz`` runs them under atheris, tests/fuzz/test_fuzz.py in CI.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from gpumesh.errors import RejectedError
from gpumesh.model import Reachability
from gpumesh.records import codec
from gpumesh.records.engine import Records
from gpumesh.swim import frames, wire
from gpumesh.swim.parameters import MAX_FRAME_BYTES
from gpumesh.swim.seal import FleetSealer
from gpumesh.swim.statement import Statement
from gpumesh.swim.stream import FRAME_SLACK_BYTES, LENGTH_BYTES, PREAMBLE_BYTES, Channel
from tests.fuzz import words
from tests.fuzz.draw import Draw
from tests.fuzz.driver import FLEET, Driver, bare, whole
from tests.fuzz.outsider import Outsider
from tests.fuzz.scene import Scene
from tests.swim.link import KEY


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that is fed."""

    feed: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    """Inputs that get far, to begin with."""
    max_bytes: int


def datagram(data: bytes) -> None:
    """Decode the body of a datagram; what is accepted comes back as it was after one more round."""
    try:
        decoded = wire.decode(data)
    except RejectedError:
        return
    statements = [wire.encode_statement(one) for one in decoded.statements]
    head = wire.encode_head(decoded.sender, decoded.digest, decoded.primary)
    again = wire.decode(wire.encode_body(head, statements, list(decoded.updates)))
    assert again == decoded, "what was understood is not what would be passed on"


def frame(data: bytes) -> None:
    """Decode the body of a stream's frame; as for datagrams."""
    try:
        decoded = frames.decode(data)
    except RejectedError:
        return
    assert frames.decode(frames.encode(decoded)) == decoded


def channel(data: bytes) -> None:
    """Feed the bytes of a stream, the first one saying in which chunks; nothing is kept beyond one frame."""
    sealer = FleetSealer(KEY, FLEET, bytes(16))
    reader = Channel(sealer, bytes([1] * 16), 1 << 20, is_opener=False)
    size = data[0] + 1 if data else 1
    most = MAX_FRAME_BYTES + FRAME_SLACK_BYTES + LENGTH_BYTES + PREAMBLE_BYTES + 256 + size
    try:
        for start in range(1, len(data), size):
            reader.feed(data[start : start + size])
            assert len(reader._buffer) <= most
    except RejectedError:
        return


def record(data: bytes) -> None:
    """Hand the bytes to all the records' decoders and to an engine that holds something."""
    for decode in (codec.decode_update, codec.decode_page, codec.decode_summary, codec.decode_digest):
        with contextlib.suppress(RejectedError):
            decode(data)
    records = Records(host_id=words.IDS[0], epoch=1)
    records.publish("host", {"name": "host"})
    for seed in _updates():
        records.handle_update(seed, 0.0)
    records.handle_update(data, 1.0)
    records.handle_page(data, 1.0)
    records.handle_digest(words.IDS[1], data, 1.0)
    records.pages_to_send(data)
    records.wants_sync_with(9.0)
    records.summary_to_send()
    assert records.value(words.IDS[0], "host") == {"name": "host"}, "somebody else wrote this host's record"
    limits = records.limits
    assert all(size <= limits[name] for name, size in records.sizes.items())


def unsealed(data: bytes) -> None:
    """Let somebody without the key try what is drawn on a host that knows its fleet: nothing may change."""
    Outsider(Scene(), data).run()


def membership(data: bytes) -> None:
    """Let a key holder say whatever is drawn to membership alone."""
    Driver(bare(), data).run()


def mesh(data: bytes) -> None:
    """Let a key holder say whatever is drawn to a whole host."""
    Driver(whole(), data).run()


def _datagrams() -> list[bytes]:
    draws = [bytes(range(start, start + 120)) for start in (0, 40, 90)]
    return [words.datagram(Draw(data), []) for data in draws]


def _frames() -> list[bytes]:
    said = [words.frame(Draw(bytes([kind, *range(1, 90)]))) for kind in range(6)]
    alive = Statement(Reachability.ALIVE, words.IDS[1], 1, 0, words.ADDRESSES[1])
    return [frames.encode(one) for one in (*said, frames.Rows((frames.Row(alive, 3),)))]


def _updates() -> list[bytes]:
    return [words.update(Draw(bytes([number, number + 1, number + 2, 1, 9]))) for number in range(8)]


def _records() -> list[bytes]:
    updates = _updates()
    summary = codec.encode_summary(codec.Summary(codec.FIRST_ID, codec.LAST_ID, {bytes(16): (1, 7)}))
    digest = codec.encode_digest(codec.Digest(1, 2, 3, 4))
    return [*updates, *codec.encode_pages(updates), summary, digest]


def _streams() -> list[bytes]:
    opener = Channel(FleetSealer(KEY, FLEET, bytes([5] * 16)), bytes([6] * 16), 1 << 20, is_opener=True)
    acceptor = Channel(FleetSealer(KEY, FLEET, bytes(16)), bytes([1] * 16), 1 << 20, is_opener=False)
    opener.feed(acceptor.preamble())
    said = b"".join(opener.seal(body) for body in _frames())
    return [b"\xff" + opener.preamble() + said, b"\x07" + opener.preamble()]


def _sealed() -> list[bytes]:
    sealer = FleetSealer(KEY, FLEET, bytes([7] * 16))
    raw = [*(sealer.seal(body)[:-1] for body in _datagrams()), *(one[1:] for one in _streams())]
    return [*raw, *_talks()[:3]]


def _talks() -> list[bytes]:
    return [bytes((7 * step + start) % 256 for step in range(400)) for start in range(12)]


TARGETS = {
    "datagram": Target(datagram, _datagrams, 1500),
    "frame": Target(frame, _frames, 4096),
    "channel": Target(channel, _streams, 4096),
    "record": Target(record, _records, 4096),
    "unsealed": Target(unsealed, _sealed, 1500),
    "membership": Target(membership, _talks, 2048),
    "mesh": Target(mesh, _talks, 2048),
}
