"""Cards that sleep, or would if they were left alone: looking at one wakes it (beszel#1522).

On a laptop the kernel suspends a card that nobody uses. sysfs says so without touching it, and such a card is
not looked at. A card that is awake and idle, and that its driver says can sleep, is left alone for a while
after each look: asking every few seconds would keep it awake for ever.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from gpumesh.health.devices import DeviceState, Reading
from gpumesh.health.pcieport import kernel_form

NAP_S: Final = 30.0
"""How long an idle card that can sleep is left alone after a look; it falls asleep within seconds."""
_MAX_CARDS: Final = 64
_MAX_TEXT_BYTES: Final = 2048
_CAN_SLEEP: Final = re.compile(r"^Runtime D3 status:\s*Enabled", re.MULTILINE)


class Rest:
    """Which cards are to be left alone now. ``root`` is where /proc and /sys are read."""

    def __init__(self, root: Path = Path("/"), *, clock: Callable[[], float] = time.monotonic) -> None:
        self._devices = root / "sys/bus/pci/devices"
        self._driver = root / "proc/driver/nvidia/gpus"
        self._clock = clock
        self._until: dict[str, float] = {}

    def is_due(self, pci_bus_id: str) -> bool:
        """Say whether the card at this address, in the driver's form, is to be left alone now."""
        address = kernel_form(pci_bus_id)
        if _text(self._devices / address / "power/runtime_status").strip() == "suspended":
            # Once something wakes it, it is looked at without delay.
            self._until.pop(address, None)
            return True
        return self._clock() < self._until.get(address, 0.0)

    def note(self, state: DeviceState) -> None:
        """Take in what a look at a card showed: one that is idle and can sleep is let sleep."""
        if state.info is None:
            return
        address = kernel_form(state.info.pci_bus_id)
        self._until.pop(address, None)
        if state.reading is None or not _is_idle(state.reading) or len(self._until) >= _MAX_CARDS:
            return
        if _CAN_SLEEP.search(_text(self._driver / address / "power")):
            self._until[address] = self._clock() + NAP_S


def _is_idle(reading: Reading) -> bool:
    is_used = any(process.kind != "graphics" for process in reading.processes or ())
    return not is_used and reading.utilization_gpu_percent in {0, None}


def _text(path: Path) -> str:
    with suppress(OSError), path.open(errors="replace") as file:
        return file.read(_MAX_TEXT_BYTES)
    return ""
