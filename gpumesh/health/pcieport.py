"""What the host's side of a card's PCIe link could do: NVML tells the card's and what both agree on.

Source: sysfs' ``max_link_speed`` and ``max_link_width`` of the port above the card. In a virtual machine
there often is none, as nvidia-smi's "Host Max: N/A" says there too.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MAX_TEXT_BYTES: Final = 64
_GENERATIONS: Final = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6, "128.0": 7}
"""Gigatransfers a second and lane, as the kernel writes them."""
_SPEED: Final = re.compile(r"(\d+(?:\.\d)?) GT/s")


@dataclass(frozen=True, slots=True)
class PciePort:
    """A port's own maxima; None where it is not told."""

    gen_max: int | None = None
    width_max: int | None = None


def port_of(pci_bus_id: str, root: Path) -> PciePort:
    """Return the port that the card at this address, in the driver's form, is plugged into; never raises."""
    try:
        port = (root / "sys/bus/pci/devices" / kernel_form(pci_bus_id)).resolve(strict=True).parent
    except (OSError, RuntimeError, ValueError):
        return PciePort()
    speed = _SPEED.match(_text(port / "max_link_speed"))
    width = _text(port / "max_link_width").strip()
    return PciePort(
        gen_max=_GENERATIONS.get(_decimal(speed[1])) if speed else None,
        width_max=int(width) if width.isascii() and width.isdecimal() else None,
    )


def kernel_form(pci_bus_id: str) -> str:
    """Return ``00000000:01:00.0`` as sysfs and /proc write it: ``0000:01:00.0``."""
    domain, _, rest = pci_bus_id.lower().partition(":")
    return f"{domain[-4:] if domain.startswith('0000') else domain}:{rest}"


def _decimal(number: str) -> str:
    """Return ``8`` as ``8.0``: older kernels write some speeds without a fraction."""
    return number if "." in number else f"{number}.0"


def _text(path: Path) -> str:
    with suppress(OSError), path.open(errors="replace") as file:
        return file.read(_MAX_TEXT_BYTES)
    return ""
