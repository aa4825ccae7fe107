"""The driver's lines in the kernel's log, read for Xids and for cards that fell off the bus without one.

Shapes: ``NVRM: Xid (PCI:0000:01:00): 79, pid=123, name=python3, …`` (older drivers leave out ``PCI:``, MIG
puts the instance behind the address), and for a card that is gone ``NVRM: GPU 0000:01:00.0: GPU has fallen
off the bus`` or a sentence that the driver breaks over three lines, in one record or in three
(NVSentinel#155).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gpumesh.health.xid_catalogue import RECOVERY_XID

PREFIX: Final = "NVRM"
_ADDRESS: Final = r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})"
_PLACE: Final = re.compile(rf"\b{_ADDRESS}\b")
_XID: Final = re.compile(rf"NVRM: Xid \((?:PCI:)?{_ADDRESS}[^)]{{0,40}}\): (\d{{1,5}})\b")
_PID: Final = re.compile(r"\bpid='?(\d{1,10})\b")
_PROCESS: Final = re.compile(r"\bname='?([^,'<>]{1,64})")
_ASKED: Final = re.compile(r"\bto 0x([0-9A-Fa-f]{1,4})\b")
_BROKEN_OFF: Final = re.compile(rf"The NVIDIA GPU {_ADDRESS}")
_FALLEN: Final = "fallen off the bus"
_SENTENCE_LINES: Final = 3
"""Driver lines within which a broken sentence must end."""


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One record of the kernel's log."""

    at: float
    """Boot clock, seconds."""
    text: str


@dataclass(frozen=True, slots=True)
class XidSighting:
    """One Xid as one source tells it."""

    place: str
    """PCI address without the function, in the driver's form: ``00000000:01:00``."""
    xid: int | None
    """None: the card fell off the bus, and no Xid said so."""
    at: float
    """Boot clock, seconds."""
    is_kernel: bool
    """From the kernel's log; otherwise from the driver's events."""
    pid: int | None = None
    process: str | None = None
    asked: int | None = None
    """With Xid 154: the recovery action that the driver asks for now, numbered as NVML field 230."""


def place_of(pci_bus_id: str) -> str | None:
    """Return where a card sits, without the function; None if that is no PCI address."""
    match = _PLACE.search(pci_bus_id)
    return _place(match) if match else None


class LineReader:
    """Reads lines in their order; remembers the beginning of a sentence that goes on in the next ones."""

    def __init__(self) -> None:
        self._begun = ""
        self._lines_left = 0

    def handle_line(self, line: KernelLine) -> XidSighting | None:
        """Return what the line says of a card, or None."""
        match = _XID.search(line.text)
        if match is not None:
            return _sighting(match, line)
        place = self._fallen(line.text)
        return None if place is None else XidSighting(place, None, line.at, is_kernel=True)

    def _fallen(self, text: str) -> str | None:
        begun = self._begun if self._lines_left > 0 else ""
        self._lines_left -= 1
        if _FALLEN in text:
            match = _PLACE.search(text)
            return _place(match) if match else (begun or None)
        match = _BROKEN_OFF.search(text)
        if match is not None:
            self._begun, self._lines_left = _place(match), _SENTENCE_LINES
        return None


def _sighting(match: re.Match[str], line: KernelLine) -> XidSighting:
    rest = line.text[match.end() :]
    xid, pid, process = int(match[4]), _PID.search(rest), _PROCESS.search(rest)
    asked = _ASKED.search(rest) if xid == RECOVERY_XID else None
    return XidSighting(
        place=_place(match),
        xid=xid,
        at=line.at,
        is_kernel=True,
        pid=int(pid[1]) if pid else None,
        process=process[1].strip() if process else None,
        asked=int(asked[1], 16) if asked else None,
    )


def _place(match: re.Match[str]) -> str:
    return f"{match[1]:>08}:{match[2]}:{match[3]}".upper()
