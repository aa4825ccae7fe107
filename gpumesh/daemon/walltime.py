"""Whether the kernel's clock is synchronised, by adjtimex(2), which to read takes no right."""

from __future__ import annotations

import ctypes
from typing import Final

_STA_UNSYNC: Final = 0x0040


class _Timex(ctypes.Structure):
    """The head of ``struct timex`` (linux/timex.h) and room for the rest of it."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def is_clock_synchronised() -> bool | None:
    """Say whether a time service has synchronised the clock; None where the system does not let us ask."""
    try:
        told = _Timex()
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(told))
    except (AttributeError, OSError):
        return None
    return None if state < 0 else not told.status & _STA_UNSYNC
