"""No input has more allocated than its bound: decoders, the bytes of a stream, membership, a whole host."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumesh.errors import RejectedError
from gpumesh.mesh.engine import Mesh
from gpumesh.model import Address, Reachability
from gpumesh.records import codec
from gpumesh.records.values import encode_value
from gpumesh.swim import frames, wire
from gpumesh.swim.engine import Swim
from gpumesh.swim.parameters import MAX_FRAME_BYTES
from gpumesh.swim.ports import SendStream
from gpumesh.swim.statement import Statement
from gpumesh.swim.stream import CHALLENGE_BYTES, Channel
from tests.fuzz import words
from tests.fuzz.allocation import (
    bounded,
    channel_bytes,
    datagram_decoder_bytes,
    decoder_bytes,
    engine_bytes,
    unsealed_bytes,
)
from tests.fuzz.driver import Driver, bare, whole
from tests.fuzz.outsider import Outsider
from tests.fuzz.scene import FRIEND, Scene, sealer
from tests.fuzz.targets import TARGETS
from tests.swim.link import host_id

STREAM_LIMIT_BYTES = 1 << 26
DECODERS: dict[str, Callable[[bytes], object]] = {
    "datagram": wire.decode,
    "frame": frames.decode,
    "update": codec.decode_update,
    "page": codec.decode_page,
    "summary": codec.decode_summary,
    "digest": codec.decode_digest,
}
GREEDY = (
    b"\xdd\xff\xff\xff\xff",
    b"\xdc\xff\xff" + b"\x90" * 1000,
    b"\xc6\xff\xff\xff\xff" + bytes(100),
    b"\xdf\x7f\xff\xff\xff",
    b"\x91" * 1400,
    b"\x9f" * 200,
    b"\xdc\x00\xff" * 1_000,
    b"\xdc\x03\x20" * 1_000,
    b"\x93\x02" + b"\xdc\x03\x20" * 1_000,
    b"\xdc\x09\xff" * 1_000,
    b"\x93" + b"\xc4\x10" + bytes(16) + b"\xc4\x10" + bytes(16) + b"\xdc\x3f\xff" * 1_000,
    b"\xdc\x00\x80" * 1_000,
    b"\xdc\x00\xff" * 2_900,
    b"\xde\x00\x80" * 2_900,
)
"""Headers that claim much, the last of them as long as a datagram may be."""


def sealed_meter(kind: str, size: int) -> AbstractContextManager[None]:
    return bounded(engine_bytes(kind, size), f"a {kind} of {size} bytes")


def unsealed_meter(kind: str, size: int) -> AbstractContextManager[None]:
    return bounded(unsealed_bytes(size), f"an unsealed {kind} of {size} bytes")


class Friend:
    """A member that speaks to the host of a scene, each time held to the bound."""

    def __init__(self) -> None:
        self.scene = Scene()
        self._sealer = sealer(51)
        self._channel = Channel(
            self._sealer, bytes([3] * CHALLENGE_BYTES), STREAM_LIMIT_BYTES, is_opener=True
        )
        engine, now = self.scene.engine, self.scene.now
        stream_id = engine.handle_stream_accepted(words.ADDRESSES[1], now)
        opening = engine.next_stream_action()
        assert stream_id is not None
        assert isinstance(opening, SendStream)
        self._channel.feed(opening.data)
        self._stream_id = stream_id
        engine.handle_stream_data(stream_id, self._channel.preamble(), now)
        sender = wire.Sender(FRIEND, 1, 0, 1)
        self.say(frames.encode(frames.Hello(sender, words.ADDRESSES[1], frames.Purpose.SYNC, False)))

    def send(self, body: bytes) -> None:
        data = self._sealer.seal(body)
        with sealed_meter("datagram", len(data)):
            self.scene.engine.handle_datagram(data, words.ADDRESSES[1], self.scene.now)

    def say(self, body: bytes) -> None:
        data = self._channel.seal(body)
        with sealed_meter("stream", len(data)):
            self.scene.engine.handle_stream_data(self._stream_id, data, self.scene.now)

    @property
    def num_members(self) -> int:
        return len(self.scene.engine.members())

    @property
    def num_records(self) -> int:
        return self.scene.engine._records.sizes["hosts"]


def strangers(num: int) -> list[Statement]:
    addresses = [Address(f"10.9.{number // 250}.{1 + number % 250}", 7977) for number in range(num)]
    return [
        Statement(Reachability.ALIVE, host_id(1_000 + number), 1, 0, address)
        for number, address in enumerate(addresses)
    ]


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("data", GREEDY, ids=range(len(GREEDY)))
def test_headers_that_claim_much_have_little_allocated(name: str, data: bytes) -> None:
    decode_bounded(name, data)


@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=1400))
def test_no_input_has_more_allocated_than_its_length_warrants(name: str, data: bytes) -> None:
    decode_bounded(name, data)


def decode_bounded(name: str, data: bytes) -> None:
    bound = datagram_decoder_bytes if name == "datagram" else decoder_bytes
    with bounded(bound(len(data)), f"{name}: {len(data)} bytes"), contextlib.suppress(RejectedError):
        DECODERS[name](data)


@pytest.mark.parametrize("make", [bare, whole])
@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=900))
def test_whatever_a_member_says_an_engine_allocates_within_the_bound(
    make: Callable[[], Swim | Mesh], data: bytes
) -> None:
    Driver(make(), data, sealed_meter).run()


@pytest.mark.parametrize("name", ["membership", "mesh"])
def test_talk_that_gets_far_stays_within_the_bound_too(name: str) -> None:
    for seed in TARGETS[name].seeds():
        Driver(bare() if name == "membership" else whole(), seed, sealed_meter).run()


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=900))
def test_whatever_an_outsider_sends_next_to_nothing_is_allocated(data: bytes) -> None:
    Outsider(Scene(), data, unsealed_meter).run()


@pytest.mark.parametrize("size", [0, 1, 34, 35, 1_400, wire.MAX_DATAGRAM_BYTES, 65_507])
def test_noise_of_any_length_has_next_to_nothing_allocated(size: int) -> None:
    for noise in (bytes(size), b"gm\x01" + bytes(size), sealer(8).seal(bytes(size))[:-1] + b"\x00"):
        Outsider(Scene(), noise, unsealed_meter).run()


@pytest.mark.parametrize("data", GREEDY, ids=range(len(GREEDY)))
def test_headers_that_claim_much_cost_a_host_little_although_they_are_sealed(data: bytes) -> None:
    Friend().send(data)
    for body in (data, frames.encode(frames.Page(data)), frames.encode(frames.Summary(data, True))):
        Friend().say(body)


def test_as_many_strangers_as_a_datagram_names_are_met_within_the_bound() -> None:
    friend = Friend()
    known = friend.num_members
    head = wire.encode_head(wire.Sender(FRIEND, 1, 0, 1), b"", wire.Gossip())
    said = [wire.encode_statement(one) for one in strangers(wire.MAX_ITEMS)]
    body = wire.encode_body(head, said, [])
    assert len(body) < wire.MAX_DATAGRAM_BYTES
    friend.send(body)
    assert friend.num_members == known + wire.MAX_ITEMS


def test_whole_pages_of_members_and_records_are_taken_within_the_bound() -> None:
    friend = Friend()
    known = friend.num_members
    rows = [frames.Row(one, 0) for one in strangers(frames.ROWS_A_PAGE)]
    friend.say(frames.encode(frames.Rows(tuple(rows))))
    assert friend.num_members == known + frames.ROWS_A_PAGE
    facts = encode_value({"name": "peer"})
    updates = [
        codec.encode_update(
            codec.make_entry(row.statement.host_id, "host", epoch=1, version=1, encoded=facts)
        )
        for row in rows
    ]
    for page in codec.encode_pages(updates):
        friend.say(frames.encode(frames.Page(page)))
    assert friend.num_records == known + frames.ROWS_A_PAGE


STREAMS = [*TARGETS["channel"].seeds(), *(bytes([1, *data]) for data in GREEDY)]


@settings(max_examples=120, deadline=None)
@given(
    seed=st.sampled_from(STREAMS),
    tail=st.binary(max_size=600),
    place=st.integers(0, 4_000),
    change=st.integers(0, 255),
    chunk=st.integers(1, 700),
)
def test_a_stream_keeps_no_more_than_what_came_in(
    seed: bytes, tail: bytes, place: int, change: int, chunk: int
) -> None:
    said = bytearray(seed[1:] + tail)
    said[place % len(said)] ^= change
    feed_bounded(bytes(said), chunk)


@pytest.mark.parametrize("chunk", [1, 7, 1_400, MAX_FRAME_BYTES, 1 << 20])
@pytest.mark.parametrize("claimed", [0, 1, MAX_FRAME_BYTES, MAX_FRAME_BYTES + 500, 2**32 - 1])
def test_a_frames_length_is_no_promise_that_is_believed(claimed: int, chunk: int) -> None:
    opener = Channel(sealer(5), bytes([6] * CHALLENGE_BYTES), 1 << 20, is_opener=True)
    feed_bounded(opener.preamble() + claimed.to_bytes(4, "big") + bytes(2_000), chunk)


@pytest.mark.parametrize("chunk", [900, MAX_FRAME_BYTES, 1 << 20])
def test_frames_as_large_as_may_be_pass_within_the_bound(chunk: int) -> None:
    opener = Channel(sealer(5), bytes([6] * CHALLENGE_BYTES), STREAM_LIMIT_BYTES, is_opener=True)
    opener.feed(Channel(sealer(0), bytes([1] * CHALLENGE_BYTES), 1 << 20, is_opener=False).preamble())
    bodies = [bytes(MAX_FRAME_BYTES)] * 3
    said = opener.preamble() + b"".join(map(opener.seal, bodies))
    assert feed_bounded(said, chunk) == len(bodies)


def feed_bounded(said: bytes, chunk: int) -> int:
    """Feed a stream chunk by chunk; return how many bodies came out."""
    reader = Channel(sealer(0), bytes([1] * CHALLENGE_BYTES), 1 << 20, is_opener=False)
    num_bodies = 0
    for start in range(0, len(said), chunk):
        data = said[start : start + chunk]
        with bounded(channel_bytes(start + len(data), len(data)), f"{start + len(data)} bytes of a stream"):
            try:
                num_bodies += len(reader.feed(data))
            except RejectedError:
                return num_bodies
    return num_bodies
