from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.errors import RejectedError
from gpumesh.records import codec
from gpumesh.records.bounds import MAX_COUNTER, MAX_PAGE_BYTES, MAX_PAGES
from gpumesh.records.values import encode_value

HOST = str(uuid.UUID(int=7))


def entry(version: int = 1, value: object = 5, name: str = "health") -> codec.Entry:
    return codec.make_entry(HOST, name, epoch=3, version=version, encoded=encode_value(value))


def test_update_and_tombstone_survive_the_wire() -> None:
    live = entry(value={"a": [1, 2.5, None]})
    assert codec.decode_update(codec.encode_update(live)) == live
    dead = codec.make_entry(HOST, "health", epoch=3, version=9, encoded=None)
    assert codec.decode_update(codec.encode_update(dead)) == dead


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([b"short", 1, 1, "host", b"\x01"], "host_id"),
        ([bytes(16), -1, 1, "host", b"\x01"], "counter"),
        ([bytes(16), 1, 0, "host", b"\x01"], "counter"),
        ([bytes(16), True, 1, "host", b"\x01"], "counter"),
        ([bytes(16), MAX_COUNTER + 1, 1, "host", b"\x01"], "counter"),
        ([bytes(16), 1, 1, "HOST", b"\x01"], "entry_name"),
        ([bytes(16), 1, 1, "host", "text"], "malformed"),
        ([bytes(16), 1, 1, "host", b"\xc1"], "malformed"),
        ([bytes(16), 1, 1, "host", b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"], "value_out_of_range"),
        ([bytes(16), 1, 1, "host"], "malformed"),
        ({"a": 1}, "malformed"),
    ],
)
def test_hostile_update_is_refused_by_reason(row: object, reason: str) -> None:
    with pytest.raises(RejectedError) as caught:
        codec.decode_update(msgpack.packb(row))
    assert caught.value.reason == reason


def test_update_that_is_held_is_stale_before_its_value_is_looked_at() -> None:
    asked: list[tuple[str, int, str, int]] = []

    def is_held(host_id: str, epoch: int, name: str, version: int) -> bool:
        asked.append((host_id, epoch, name, version))
        return True

    row = [codec.id_bytes(HOST), 3, 4, "host", b"\xc1"]
    with pytest.raises(RejectedError) as caught:
        codec.decode_update(msgpack.packb(row), is_held)
    assert caught.value.reason == "stale"
    assert asked == [(HOST, 3, "host", 4)]


DECODERS: list[Callable[[bytes], object]] = [
    codec.decode_update,
    codec.decode_page,
    codec.decode_summary,
    codec.decode_digest,
]


@pytest.mark.parametrize("decode", DECODERS)
@given(data=st.binary(max_size=400))
def test_any_bytes_are_decoded_or_refused(decode: Callable[[bytes], object], data: bytes) -> None:
    try:
        decode(data)
    except RejectedError as error:
        assert error.reason  # noqa: PT017 - any other exception fails the test


@given(
    st.recursive(
        st.none()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats()
        | st.binary(max_size=20)
        | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=20,
    )
)
def test_any_msgpack_is_decoded_or_refused(value: object) -> None:
    data = msgpack.packb(value)
    for decode in DECODERS:
        with contextlib.suppress(RejectedError):
            decode(data)


def test_pages_stay_within_their_size_and_number() -> None:
    updates = [codec.encode_update(entry(version, "x" * 1000)) for version in range(1, 6001)]
    pages = codec.encode_pages(updates)
    assert all(len(page) <= MAX_PAGE_BYTES for page in pages)
    assert len(pages) == MAX_PAGES
    back = [row for page in pages for row in codec.decode_page(page)]
    assert back == updates[: len(back)]


def test_oversized_page_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(RejectedError, match="too_large"):
        codec.decode_page(b"\x90" * (MAX_PAGE_BYTES + 1))


def test_summary_and_digest_survive_the_wire() -> None:
    summary = codec.Summary(codec.FIRST_ID, codec.LAST_ID, {bytes(16): (3, 2**64 - 1)}, bytes(range(32)))
    assert codec.decode_summary(codec.encode_summary(summary)) == summary
    digest = codec.Digest(4, 9, 2**64 - 1, 17)
    data = codec.encode_digest(digest)
    assert len(data) <= 64
    assert codec.decode_digest(data) == digest
