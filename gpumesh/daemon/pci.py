"""NVIDIA display controllers on the PCI bus: what the driver's count is compared with (NVSentinel#684).

sysfs answers from the kernel's own memory, so a card that hangs does not hang the reader.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

_NVIDIA: Final = 0x10DE
_DISPLAY_CLASSES: Final = frozenset({0x0300, 0x0302})
"""VGA-compatible and 3D controllers: GeForce cards are the first, datacentre cards the second."""
_PASS_THROUGH: Final = frozenset({"vfio-pci", "pci-stub"})
_MAX_TEXT_BYTES: Final = 32
_ADDRESS: Final = re.compile(r"(?P<domain>[0-9a-f]{4,8}):(?P<rest>[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


class PciBus:
    """The bus under ``root``; it is walked again only when the list of its devices has changed."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._devices = root / "sys/bus/pci/devices"
        self._names: tuple[str, ...] | None = None
        self._gpus: tuple[str, ...] = ()

    def gpu_addresses(self) -> tuple[str, ...] | None:
        """Return the addresses of NVIDIA's GPUs, sorted, in the driver's form; None if the bus is unreadable.

        Cards that were given to a virtual machine are left out: the driver is not meant to see them.
        """
        try:
            names = tuple(sorted(item.name for item in self._devices.iterdir()))
        except OSError:
            self._names = None
            return None
        if names != self._names:
            self._gpus = tuple(name for name in names if self._is_gpu(name))
            self._names = names
        return tuple(driver_form(name) for name in self._gpus if not self._is_given_away(name))

    def _is_given_away(self, name: str) -> bool:
        with suppress(OSError):
            return (self._devices / name / "driver").readlink().name in _PASS_THROUGH
        return False

    def _is_gpu(self, name: str) -> bool:
        if not _ADDRESS.fullmatch(name) or self._number(name, "vendor") != _NVIDIA:
            return False
        return (self._number(name, "class") or 0) >> 8 in _DISPLAY_CLASSES

    def _number(self, name: str, attribute: str) -> int | None:
        with suppress(OSError, ValueError), (self._devices / name / attribute).open("rb") as file:
            return int(file.read(_MAX_TEXT_BYTES), 16)
        return None


def driver_form(address: str) -> str:
    """Return sysfs' ``0000:01:00.0`` as the driver writes it: ``00000000:01:00.0``, upper case."""
    match = _ADDRESS.fullmatch(address)
    return f"{match['domain']:>08}:{match['rest']}".upper() if match else address.upper()
