from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.errors import RejectedError
from gpumesh.model import Address, Reachability
from gpumesh.swim.frames import (
    CHUNK_BYTES,
    ROWS_A_PAGE,
    End,
    Frame,
    Hello,
    Outline,
    Page,
    Purpose,
    Row,
    Rows,
    Summary,
    chunks,
    decode,
    encode,
    pages,
)
from gpumesh.swim.parameters import MAX_FRAME_BYTES
from gpumesh.swim.statement import Statement
from gpumesh.swim.wire import Sender
from tests.swim.link import host_id

ADDRESS = Address("2001:db8::1", 7977)
SENDER = Sender(host_id(1), 2, 3, 4)


def row(number: int) -> Row:
    statement = Statement(Reachability.FAILED, host_id(number), 2**40, 2**31, ADDRESS, host_id(number + 1))
    return Row(statement, 2**31)


@pytest.mark.parametrize(
    "frame",
    [
        Hello(SENDER, ADDRESS, Purpose.SYNC, is_leaving=False),
        Hello(SENDER, ADDRESS, Purpose.PING, is_leaving=True),
        Outline((1, 2**64 - 1), (0, 7)),
        Rows((row(1), row(2))),
        Summary(b"summary", is_last=True),
        Page(b"page"),
        End(),
    ],
)
def test_every_frame_comes_back_as_it_went(frame: Frame) -> None:
    assert decode(encode(frame)) == frame


def test_a_full_page_of_the_largest_rows_fits_a_frame() -> None:
    body = encode(Rows(tuple(row(number) for number in range(ROWS_A_PAGE))))
    assert len(body) <= MAX_FRAME_BYTES
    assert decode(body) == Rows(tuple(row(number) for number in range(ROWS_A_PAGE)))


def test_quickwit_6653_large_tables_are_paged() -> None:
    sizes = [len(page.rows) for page in pages(row(number) for number in range(2 * ROWS_A_PAGE + 5))]
    assert sizes == [ROWS_A_PAGE, ROWS_A_PAGE, 5]


@given(st.integers(0, 3 * CHUNK_BYTES))
def test_summaries_come_in_chunks_of_which_one_is_the_last(size: int) -> None:
    pieces = list(chunks(bytes(size)))
    assert sum(len(piece.chunk) for piece in pieces) == size
    assert [piece.is_last for piece in pieces] == [False] * (len(pieces) - 1) + [True]


@pytest.mark.parametrize(
    "value",
    [
        None,
        (),
        (0,),
        (6,),
        (True,),
        (5, 1),
        (4, "text"),
        (3, b"chunk", 2),
        (2, 1, ()),
        (2, (), (1,)),
        (2, ((0, bytes(16), 1, 0, b"\x0a\x00\x00\x01", 1, b""),), (-1,)),
        (2, ((0, bytes(16), 1, 0, b"", 0, b""),), (0,)),  # a row without its address
        (2, ((4, bytes(16), 1, 0, b"", 0, bytes(16)),), (0,)),  # a vouch is no row
        (1, bytes(16), 1, 0, 0, b"\x0a\x00\x00\x01", 7977, 7, 0),
        (1, bytes(16), 1, 0, 0, b"\x0a\x00\x00\x01", 7977, 0, 5),
        (1, bytes(16), 1, 0, 0, b"", 7977, 0, 0),
        (6, b"", b""),
        (6, bytes(7), bytes(7)),
        (6, bytes(24), bytes(24)),  # not a power of two
        (6, bytes(8), bytes(16)),
        (6, bytes(8 * 512), bytes(8 * 512)),
    ],
)
def test_whatever_is_not_exactly_a_frame_is_malformed(value: Any) -> None:
    with pytest.raises(RejectedError, match="malformed"):
        decode(msgpack.packb(value))


@given(st.binary(max_size=300))
def test_noise_is_a_frame_or_malformed(data: bytes) -> None:
    try:
        decode(data)
    except RejectedError as error:
        assert error.reason == "malformed"  # noqa: PT017 (a decode that succeeds is as good)
