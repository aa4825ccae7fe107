"""Why clocks are lower than they could be: NVML's bits, and which one names the cause.

Source: NVML's nvmlClocksEventReasons. The driver sets the general bit of a hardware slowdown beside the two
that say why; one cause is told for one slowdown.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

SW_THERMAL: Final = 0x20


class HardwareCause(Enum):
    """Why the hardware slows a card down; what tells most stands first."""

    THERMAL = 0x40
    POWER_BRAKE = 0x80
    UNEXPLAINED = 0x08


def hardware_cause(reasons: int) -> HardwareCause | None:
    """Return why the hardware slows the card down; None: it does not."""
    return next((cause for cause in HardwareCause if reasons & cause.value), None)
