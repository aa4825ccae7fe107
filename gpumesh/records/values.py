"""Plain data at the edge: what an entry's value may hold, and its bounded encoding.

One NaN or one absurd number accepted by one host spreads through the whole fleet (consul#3023), so a value is
judged before it is stored, whoever sent it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

import msgpack

from gpumesh.errors import RejectedError
from gpumesh.records.bounds import (
    MAX_DEPTH,
    MAX_INTEGER,
    MAX_ITEMS,
    MAX_NAME,
    MAX_NODES,
    MAX_NUMBER,
    MAX_TEXT,
    MAX_VALUE_BYTES,
)

Plain = Any
"""None, booleans, integers, finite floats, strings, and lists and maps (with string keys) of them."""

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}(/[A-Za-z0-9][A-Za-z0-9._:-]{0,94})?")


def is_entry_name(name: object) -> bool:
    """Tell whether this is the name of an entry: ``host``, ``gpu/GPU-1b2c…`` and the like."""
    return isinstance(name, str) and len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None


def encode_value(value: Plain) -> bytes:
    """Return the encoding of a value of one's own. Errors: RejectedError if it breaks a bound."""
    check_value(value)
    data: bytes = msgpack.packb(value)
    if len(data) > MAX_VALUE_BYTES:
        raise RejectedError("value_too_large", f"{len(data)} bytes")
    return data


def decode_value(data: bytes) -> Plain:
    """Return the value that ``data`` encodes. Errors: RejectedError, with the reason to count."""
    if len(data) > MAX_VALUE_BYTES:
        raise RejectedError("value_too_large", f"{len(data)} bytes")
    value = unpack(data, max_items=MAX_ITEMS)
    check_value(value)
    return value


def unpack(data: bytes, *, max_items: int) -> Any:
    """Return what msgpack ``data`` holds, no container larger than ``max_items``. Errors: RejectedError."""
    try:
        return msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            max_str_len=4 * MAX_TEXT,
            max_bin_len=len(data),
            max_array_len=max_items,
            max_map_len=MAX_ITEMS,
            max_ext_len=0,
        )
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise RejectedError("malformed", str(error)[:80]) from error


class ArrayReader:
    """Reads arrays item by item, so that no header makes room for more than ``max_items`` small things.

    The plain decoder makes room for all that an array's header claims before it reads on, at each of up to a
    thousand levels: sixty kilobytes of headers within headers would take hundreds of megabytes.
    """

    def __init__(self, data: bytes, *, max_inner: int) -> None:
        self._size_bytes = len(data)
        self._unpacker = msgpack.Unpacker(
            raw=False,
            strict_map_key=True,
            read_size=max(1, len(data)),
            max_buffer_size=max(1, len(data)),
            max_str_len=4 * MAX_TEXT,
            max_bin_len=len(data),
            max_array_len=max_inner,
            max_map_len=0,
            max_ext_len=0,
        )
        self._unpacker.feed(data)

    def begin_array(self, max_items: int) -> int:
        """Return how many items the array has that begins here. Errors: RejectedError."""
        count = self._read(self._unpacker.read_array_header)
        if not 0 <= count <= max_items:
            raise RejectedError("malformed", f"an array of {count}")
        return int(count)

    def item(self) -> Any:
        """Return the next item, arrays in it no larger than ``max_inner``. Errors: RejectedError."""
        return self._read(self._unpacker.unpack)

    def end(self) -> None:
        """Judge that nothing follows. Errors: RejectedError."""
        if self._unpacker.tell() != self._size_bytes:
            raise RejectedError("malformed", "more than one value")

    def _read(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise RejectedError("malformed", str(error)[:80]) from error


def check_value(value: Plain) -> None:
    """Judge a value without recursing into the interpreter's stack. Errors: RejectedError."""
    pending: list[tuple[Any, int]] = [(value, 0)]
    num_nodes = 0
    while pending:
        item, depth = pending.pop()
        num_nodes += 1
        if num_nodes > MAX_NODES:
            raise RejectedError("value_too_many")
        if isinstance(item, list | tuple | dict):
            if depth >= MAX_DEPTH:
                raise RejectedError("value_too_deep")
            pending.extend((child, depth + 1) for child in _children(item))
        else:
            _check_scalar(item)


def _children(container: Any) -> list[Any]:
    if len(container) > MAX_ITEMS:
        raise RejectedError("value_too_many")
    if not isinstance(container, dict):
        return list(container)
    for key in container:
        if not isinstance(key, str) or len(key) > MAX_TEXT:
            raise RejectedError("value_key")
    return list(container.values())


def _check_scalar(item: Any) -> None:
    if item is None or isinstance(item, bool):
        return
    if isinstance(item, str):
        if len(item) > MAX_TEXT:
            raise RejectedError("value_text_too_long")
    elif isinstance(item, int):
        if not -MAX_INTEGER <= item <= MAX_INTEGER:
            raise RejectedError("value_out_of_range")
    elif isinstance(item, float):
        if not math.isfinite(item) or abs(item) > MAX_NUMBER:
            raise RejectedError("value_out_of_range")
    else:
        raise RejectedError("value_type", type(item).__name__)
