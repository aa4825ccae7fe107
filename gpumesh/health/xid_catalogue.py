"""What each Xid means and what it calls for: one table, by number.

Sources: NVIDIA's Xid catalogue for meanings and recommended actions; which ones a healthy card survives is
also what k8s-device-plugin ignores (13, 31, 43, 45, 68, 109) and gpud tells apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

OFF_BUS_XID: Final = 79
RECOVERY_XID: Final = 154


class Calls(Enum):
    """What an Xid calls for."""

    APPLICATION = "application"
    """The job's own fault: its owner is told, the card stays."""
    NOTE = "note"
    """Nothing: worth knowing."""
    CONTAINED = "contained"
    """An uncorrectable error that hit one job alone: that job starts again, the card stays."""
    RESET = "reset"
    HARDWARE = "hardware"
    """A reset, and what the sub-code says if it comes back."""
    REPLACE = "replace"
    """A reset, and another card if it comes back."""
    REBOOT = "reboot"
    CABLES = "cables"
    REPORT = "report"
    RECOVERY = "recovery"
    """The driver changed what it asks for: its own words are followed."""
    UNKNOWN = "unknown"
    """Not in the table."""


@dataclass(frozen=True, slots=True)
class XidKind:
    """One Xid's meaning, and what it calls for."""

    meaning: str
    calls: Calls


def _kinds(calls: Calls, meanings: Mapping[int, str]) -> dict[int, XidKind]:
    return {number: XidKind(meaning, calls) for number, meaning in meanings.items()}


_LINK: Final = "NVLink error"
CATALOGUE: Final[Mapping[int, XidKind]] = MappingProxyType(
    _kinds(
        Calls.APPLICATION,
        {
            8: "channel stopped: a program kept the GPU too long",
            13: "graphics engine exception",
            31: "memory page fault",
            32: "invalid or corrupted push buffer",
            43: "channel reset after a program's error",
            45: "clean-up of a program that ended or failed",
            68: "video processor exception",
            69: "graphics engine class error",
        },
    )
    | _kinds(
        Calls.NOTE,
        {
            38: "firmware watchdog",
            44: "fault while switching contexts",
            63: "a memory row or page was marked for remapping",
            92: "high rate of corrected single-bit errors",
        },
    )
    | _kinds(Calls.CONTAINED, {94: "contained memory error"})
    | _kinds(
        Calls.RESET,
        {
            46: "the GPU stopped processing",
            62: "the power management unit halted",
            95: "uncontained memory error",
            109: "timeout while switching contexts",
            119: "the GPU's system processor does not answer",
            120: "the GPU's system processor failed",
            140: "unrecovered memory error",
            143: "the GPU could not be initialised",
            158: "fatal timeout",
        },
    )
    | _kinds(
        Calls.HARDWARE,
        {48: "double-bit memory error", 74: _LINK, **dict.fromkeys(range(144, 151), _LINK)},
    )
    | _kinds(Calls.REPLACE, {64: "a memory row or page could not be remapped"})
    | _kinds(Calls.REBOOT, {OFF_BUS_XID: "the GPU has fallen off the bus"})
    | _kinds(Calls.CABLES, {54: "auxiliary power is not connected"})
    | _kinds(Calls.REPORT, {61: "breakpoint in the power management unit"})
    | _kinds(Calls.RECOVERY, {RECOVERY_XID: "the driver changed the recovery action that it asks for"})
)

_UNKNOWN: Final = XidKind("not in this version's table", Calls.UNKNOWN)
_OFF_BUS: Final = XidKind("the kernel says without an Xid that the GPU has fallen off the bus", Calls.REBOOT)


def kind_of(xid: int | None) -> XidKind:
    """Return what an Xid means; None is a card that fell off the bus without one (NVSentinel#155)."""
    return _OFF_BUS if xid is None else CATALOGUE.get(xid, _UNKNOWN)
