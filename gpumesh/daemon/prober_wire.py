"""Frames between the daemon and its prober: a length, then msgpack; sans-I/O, bounded, numbered.

==================  =====================================================  =========
frame               contents                                               direction
==================  =====================================================  =========
``configure``       :class:`Backend`                                       to child
``probe``           round                                                  to child
``ready``           none                                                   to daemon
``pci``             round, addresses or None                               to daemon
``driver``          round, DriverInfo                                      to daemon
``count``           round, number of cards                                 to daemon
``device``          round, DeviceState, as soon as that card has answered  to daemon
``done``            round                                                  to daemon
``failed``          round, message, NVML code, whether the child ends      to daemon
==================  =====================================================  =========

The end of the daemon's pipe asks the child to let go of the driver and end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

import msgpack

from gpumesh.errors import RejectedError
from gpumesh.health.devices import DeviceInfo, DeviceState, DriverInfo, MigInstance, Process, Reading

MAX_FRAME_BYTES: Final = 1 << 20
CALL_BYTES: Final = 128
"""Size of the shared record of the call that the child is in."""
_LENGTH: Final = struct.Struct(">I")
_MAX_INT_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class Backend:
    """What the child is to look at."""

    kind: str
    """``nvml`` or ``simulated``."""
    host: str = ""
    """Names the simulated cards."""
    profiles: tuple[str, ...] = ()
    faults: str = ""
    root: str = "/"
    """Where /proc and /sys are read."""


def encode(kind: str, *contents: Any) -> bytes:
    """Return a frame; dataclasses become tables without their absent values."""
    body = msgpack.packb([kind, *(_plain(item) for item in contents)], use_bin_type=True)
    if len(body) > MAX_FRAME_BYTES:
        raise RejectedError("too_large", f"a {kind} frame of {len(body)} bytes")
    return _LENGTH.pack(len(body)) + bytes(body)


class FrameReader:
    """Turns bytes, in any chunks, into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[list[Any]]:
        """Yield the frames that ``data`` completes. Errors: RejectedError; the stream is then useless."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MAX_FRAME_BYTES:
                raise RejectedError("too_large", f"a frame of {length} bytes")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield _frame(body)


def _frame(body: bytes) -> list[Any]:
    try:
        frame = msgpack.unpackb(body, raw=False, strict_map_key=True, use_list=True)
    except (ValueError, msgpack.UnpackException) as error:
        raise RejectedError("malformed", "a frame that is no msgpack") from error
    if not isinstance(frame, list) or not frame or not isinstance(frame[0], str):
        raise RejectedError("malformed", "a frame without a kind")
    return frame


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {
            item.name: _plain(content)
            for item in fields(value)
            if (content := getattr(value, item.name)) is not None
        }
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, int) and value.bit_length() > _MAX_INT_BITS:
        return None
    return value


def backend(table: dict[str, Any]) -> Backend:
    """Return the backend that a frame holds."""
    return Backend(**{**table, "profiles": tuple(table.get("profiles", ()))})


def driver_info(table: dict[str, Any]) -> DriverInfo:
    """Return the driver's words that a frame holds. Errors: RejectedError."""
    try:
        return DriverInfo(**{"driver_version": None, "library_version": None, "cuda_version": None, **table})
    except TypeError as error:
        raise RejectedError("malformed", "driver") from error


def device_state(table: dict[str, Any]) -> DeviceState:
    """Return the card that a frame holds. Errors: RejectedError."""
    try:
        info, reading = table.get("info"), table.get("reading")
        return DeviceState(
            **{
                **table,
                "info": None if info is None else DeviceInfo(**info),
                "reading": None if reading is None else _reading(reading),
                "xids": tuple(int(xid) for xid in table.get("xids", ())),
            }
        )
    except (TypeError, AttributeError, ValueError) as error:
        raise RejectedError("malformed", "device") from error


def _reading(table: dict[str, Any]) -> Reading:
    built = dict(table)
    if "processes" in table:
        built["processes"] = tuple(Process(**{"memory_bytes": None, **item}) for item in table["processes"])
    if "mig_instances" in table:
        built["mig_instances"] = tuple(MigInstance(**item) for item in table["mig_instances"])
    if "nvlinks" in table:
        built["nvlinks"] = tuple(table["nvlinks"])
    return Reading(**built)
