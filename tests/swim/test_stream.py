from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.config.keyring import FleetKey, Keyring
from gpumesh.errors import RejectedError
from gpumesh.swim.parameters import MAX_FRAME_BYTES
from gpumesh.swim.seal import FleetSealer
from gpumesh.swim.stream import PREAMBLE, Channel

KEY, OTHER = FleetKey(b"k" * 32), FleetKey(b"o" * 32)


def channel(
    number: int, *keys: FleetKey, is_opener: bool, challenge: int | None = None, limit: int = 2**20
) -> Channel:
    sealer = FleetSealer(Keyring(keys) if keys else None, "fleet", bytes([number] * 16))
    return Channel(sealer, bytes([challenge or number] * 16), limit, is_opener=is_opener)


def pair(*keys: FleetKey) -> tuple[Channel, Channel]:
    opener, acceptor = channel(1, *keys, is_opener=True), channel(2, *keys, is_opener=False)
    assert acceptor.feed(opener.preamble()) == []
    assert opener.feed(acceptor.preamble()) == []
    return opener, acceptor


def reason(receiver: Channel, data: bytes) -> str:
    with pytest.raises(RejectedError) as caught:
        receiver.feed(data)
    return caught.value.reason


@pytest.mark.parametrize("keys", [(), (KEY,)])
def test_frames_pass_both_ways_fed_byte_by_byte(keys: tuple[FleetKey, ...]) -> None:
    opener, acceptor = pair(*keys)
    there = opener.seal(b"one") + opener.seal(b"") + opener.seal(b"three")
    assert [body for byte in there for body in acceptor.feed(bytes([byte]))] == [b"one", b"", b"three"]
    assert opener.feed(acceptor.seal(b"back")) == [b"back"]
    assert opener.is_proven
    assert acceptor.is_proven


@given(st.lists(st.binary(max_size=500), max_size=8), st.integers(0, 2**32))
def test_chunking_makes_no_difference(bodies: list[bytes], seed: int) -> None:
    opener, acceptor = channel(1, KEY, is_opener=True), channel(2, KEY, is_opener=False)
    opener.feed(acceptor.preamble())
    waiting = opener.preamble() + b"".join(opener.seal(body) for body in bodies)
    random, received = Random(seed), []
    while waiting:
        size = random.randrange(1, 64)
        received += acceptor.feed(waiting[:size])
        waiting = waiting[size:]
    assert received == bodies


def test_a_recorded_stream_opens_nowhere() -> None:
    opener, acceptor = pair(KEY)
    recorded = opener.preamble() + opener.seal(b"body")
    again = channel(2, KEY, is_opener=False, challenge=9)
    assert reason(again, recorded) == "bad_tag"
    assert acceptor.is_ready


def test_frames_can_be_neither_doubled_nor_reordered_nor_sent_back() -> None:
    opener, acceptor = pair(KEY)
    first, second = opener.seal(b"1"), opener.seal(b"2")
    assert reason(acceptor, second) == "bad_tag"
    opener, acceptor = pair(KEY)
    first = opener.seal(b"1")
    acceptor.feed(first)
    assert reason(acceptor, first) == "bad_tag"
    opener, _ = pair(KEY)
    assert reason(opener, opener.seal(b"mine")) == "bad_tag"


@pytest.mark.parametrize("keys", [(OTHER,), ()])
def test_serf_579_a_stranger_is_cut_off_at_once_and_knows_whose_key_it_lacks(
    keys: tuple[FleetKey, ...],
) -> None:
    opener, acceptor = channel(1, *keys, is_opener=True), channel(2, KEY, is_opener=False)
    assert reason(acceptor, opener.preamble()) == "unknown_key"
    assert reason(opener, acceptor.preamble()) == "unknown_key"
    assert opener._sealer.unknown_key_id == KEY.key_id.hex()


def test_during_a_rotation_ends_that_send_with_different_keys_understand_each_other() -> None:
    opener, acceptor = channel(1, KEY, OTHER, is_opener=True), channel(2, OTHER, KEY, is_opener=False)
    acceptor.feed(opener.preamble())
    opener.feed(acceptor.preamble())
    assert acceptor.feed(opener.seal(b"there")) == [b"there"]
    assert opener.feed(acceptor.seal(b"back")) == [b"back"]


def test_another_label_is_cut_off() -> None:
    acceptor = channel(2, is_opener=False)
    stranger = Channel(FleetSealer(None, "other", bytes(16)), bytes([1] * 16), 2**20, is_opener=True)
    acceptor.feed(stranger.preamble())
    stranger.feed(acceptor.preamble())
    assert reason(acceptor, stranger.seal(b"hello")) == "bad_label"


def test_a_length_is_refused_before_its_bytes_are_there() -> None:
    _, acceptor = pair(KEY)
    assert reason(acceptor, (MAX_FRAME_BYTES + 1000).to_bytes(4, "big")) == "too_large"


def test_bytes_of_one_stream_are_bounded() -> None:
    acceptor = channel(2, KEY, is_opener=False, limit=1000)
    assert acceptor.feed(b"gm") == []
    assert reason(acceptor, bytes(2000)) == "too_large"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"GET / HTTP/1.1\r\n", "malformed"),
        (b"gmx", "malformed"),
        (b"gms\x63" + bytes(20), "version"),
        (PREAMBLE + KEY.key_id + bytes([2] * 16), "reflected"),
    ],
)
def test_other_openings_are_refused(data: bytes, expected: str) -> None:
    assert reason(channel(2, KEY, is_opener=False), data) == expected


def test_nothing_is_sealed_before_the_other_end_has_spoken() -> None:
    with pytest.raises(RejectedError):
        channel(1, KEY, is_opener=True).seal(b"body")


@given(st.binary(max_size=300))
def test_noise_never_yields_a_body(data: bytes) -> None:
    acceptor = channel(2, KEY, is_opener=False)
    try:
        assert acceptor.feed(data) == []
    except RejectedError:
        assert not acceptor.is_proven
