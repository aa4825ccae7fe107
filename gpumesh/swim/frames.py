"""What is said on a stream: an introduction, membership pages, the passenger's summary and pages, the end."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import Any, Final

import msgpack

from gpumesh.errors import RejectedError
from gpumesh.model import Address
from gpumesh.swim.fields import (
    address_from_wire,
    address_to_wire,
    array,
    binary,
    id_to_wire,
    integer,
    pack,
    unpack,
)
from gpumesh.swim.outline import MAX_BUCKETS
from gpumesh.swim.parameters import MAX_FRAME_BYTES
from gpumesh.swim.statement import Statement
from gpumesh.swim.wire import Sender, decode_sender, decode_statement, encode_statement

ROWS_A_PAGE: Final = 800
"""At most 75 bytes each: a page stays under 64 KiB."""
CHUNK_BYTES: Final = 60_000
"""Of a summary too large for one frame."""
MAX_AGE_S: Final = 2**32
MAX_SUMMARY_BYTES: Final = 1024 * 1024
"""Of one stream: all of them together may hold 64 times this."""


class Purpose(IntEnum):
    """What the opener of a stream wants."""

    SYNC = 0
    PING = 1


@dataclass(frozen=True, slots=True)
class Hello:
    """Who speaks, where it is reached, what it wants; the acceptor answers with its own."""

    sender: Sender
    address: Address
    purpose: Purpose
    is_leaving: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One member as the speaker holds it."""

    statement: Statement
    age_s: int
    """Whole seconds since it is held so. Goodbyes and failures would otherwise be passed round for ever, each
    host counting their time of remembrance from when it heard of them (memberlist#253)."""


@dataclass(frozen=True, slots=True)
class Rows:
    """One page of the member table."""

    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """A mark a bucket of all that the speaker holds: of members, and of the passenger's; as many of each."""

    members: tuple[int, ...]
    passenger: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """A piece of the passenger's summary."""

    chunk: bytes
    is_last: bool


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the passenger's entries."""

    data: bytes


@dataclass(frozen=True, slots=True)
class End:
    """The speaker has said all for this turn."""


Frame = Hello | Outline | Rows | Summary | Page | End
_HELLO, _ROWS, _SUMMARY, _PAGE, _END, _OUTLINE = range(1, 7)
_MARK: Final = struct.Struct(">Q")
_HELLO_FIELDS: Final = 9
_STATEMENT_FIELDS: Final = 7
_ROWS_HEAD: Final = bytes([0x93, _ROWS])


def encode(frame: Frame) -> bytes:
    """Return the frame's body."""
    if isinstance(frame, Hello):
        sender = frame.sender
        return pack(
            (_HELLO, id_to_wire(sender.host_id), sender.epoch, sender.incarnation, sender.beat,
             *address_to_wire(frame.address), int(frame.purpose), int(frame.is_leaving))
        )  # fmt: skip
    if isinstance(frame, Outline):
        return pack((_OUTLINE, _marks_to_wire(frame.members), _marks_to_wire(frame.passenger)))
    if isinstance(frame, Rows):
        rows = [encode_statement(row.statement) for row in frame.rows]
        ages = pack([row.age_s for row in frame.rows])
        return b"\x93" + pack(_ROWS) + b"\xdc" + len(rows).to_bytes(2, "big") + b"".join(rows) + ages
    if isinstance(frame, Summary):
        return pack((_SUMMARY, frame.chunk, int(frame.is_last)))
    if isinstance(frame, Page):
        return pack((_PAGE, frame.data))
    return pack((_END,))


def decode(body: bytes) -> Frame:
    """Return the frame; raises :class:`RejectedError` for whatever is not exactly one."""
    if body.startswith(_ROWS_HEAD):
        return _rows(body)
    value = unpack(body, _HELLO_FIELDS)
    if type(value) is not tuple or not value:
        raise RejectedError("malformed", "stream frame")
    kind = integer(value[0], _OUTLINE, _HELLO)
    if kind == _HELLO:
        return _hello(value)
    if kind == _ROWS:
        raise RejectedError("malformed", "rows")
    if kind == _SUMMARY:
        _, chunk, is_last = array(value, 3)
        return Summary(binary(chunk, MAX_FRAME_BYTES), bool(integer(is_last, 1)))
    if kind == _PAGE:
        return Page(binary(array(value, 2)[1], MAX_FRAME_BYTES))
    if kind == _OUTLINE:
        return _outline(*array(value, 3)[1:])
    array(value, 1)
    return End()


def pages(rows: Iterable[Row]) -> Iterator[Rows]:
    """Yield the member table in pages."""
    waiting = iter(rows)
    while page := tuple(islice(waiting, ROWS_A_PAGE)):
        yield Rows(page)


def chunks(summary: bytes) -> Iterator[Summary]:
    """Yield the passenger's summary in pieces; an empty one too is said, once."""
    for start in range(0, max(1, len(summary)), CHUNK_BYTES):
        yield Summary(summary[start : start + CHUNK_BYTES], start + CHUNK_BYTES >= len(summary))


def _hello(value: Any) -> Hello:
    _, raw_id, epoch, incarnation, beat, packed, port, purpose, is_leaving = array(value, _HELLO_FIELDS)
    sender = decode_sender(raw_id, epoch, incarnation, beat)
    address = address_from_wire(packed, port)
    return Hello(sender, address, Purpose(integer(purpose, Purpose.PING)), bool(integer(is_leaving, 1)))


def _marks_to_wire(marks: Iterable[int]) -> bytes:
    return b"".join(map(_MARK.pack, marks))


def _outline(members: Any, passenger: Any) -> Outline:
    both = [binary(raw, MAX_BUCKETS * _MARK.size) for raw in (members, passenger)]
    num, rest = divmod(len(both[0]), _MARK.size)
    # A power of two, so that buckets are groups of first bytes.
    if rest or num & (num - 1) or not num or len(both[0]) != len(both[1]):
        raise RejectedError("malformed", "outline")
    return Outline(*(tuple(mark for (mark,) in _MARK.iter_unpack(raw)) for raw in both))


def _rows(body: bytes) -> Rows:
    """Read a page of rows item by item.

    The plain decoder makes room for all the items that an array claims before it reads on, and so for each of
    a thousand arrays within each other.
    """
    reader = msgpack.Unpacker(
        use_list=False,
        raw=True,
        read_size=len(body),
        max_buffer_size=len(body),
        max_array_len=_STATEMENT_FIELDS,
        max_bin_len=len(body),
        max_str_len=0,
        max_map_len=0,
        max_ext_len=0,
    )
    reader.feed(body)
    try:
        reader.read_array_header()
        reader.unpack()
        statements = [reader.unpack() for _ in range(_count(reader.read_array_header()))]
        ages = [reader.unpack() for _ in range(_count(reader.read_array_header()))]
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise RejectedError("malformed", type(error).__name__) from None
    if reader.tell() != len(body) or len(ages) != len(statements):
        raise RejectedError("malformed", "rows")
    return Rows(tuple([_row(*pair) for pair in zip(statements, ages, strict=True)]))


def _count(items: int) -> int:
    return integer(items, ROWS_A_PAGE)


def _row(value: Any, age_s: Any) -> Row:
    statement = decode_statement(value)
    if not isinstance(statement, Statement) or statement.address is None:
        raise RejectedError("malformed", "row")
    return Row(statement, integer(age_s, MAX_AGE_S))
