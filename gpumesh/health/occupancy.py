"""Whether a card is free: who computes on it, and how much of its memory is left, without the noise."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from gpumesh.health.devices import Process

NUM_STEPS: Final = 16
"""Free memory is told in sixteenths of the total: smaller changes are nobody's business but Prometheus'."""

DESKTOP: Final = frozenset(
    {
        "Hyprland", "Xorg", "Xwayland", "cinnamon", "compiz", "cosmic-comp", "gnome-shell", "kwin_wayland",
        "kwin_wayland_wrapper", "kwin_x11", "mutter", "niri", "picom", "plasmashell", "sway", "wayfire",
        "weston", "xfwm4",
    }
)  # fmt: skip
"""Display servers and compositors: the driver lists some as compute too (kwin_wayland as C+G on a 4080S)."""


def is_busy(processes: Iterable[Process] | None, ignored: Iterable[str] = ()) -> bool | None:
    """Say whether a compute process holds the card; None if the driver cannot list them.

    ``ignored`` are program names that do not count, besides the desktop's own. A process whose name cannot be
    had counts: it may be a person's.
    """
    if processes is None:
        return None
    harmless = DESKTOP.union(ignored)
    return any("compute" in process.kind and _program(process.name) not in harmless for process in processes)


def _program(name: str | None) -> str | None:
    return PurePosixPath(name.split(" ", 1)[0]).name if name else None


class FreeMemory:
    """Free framebuffer of one card, rounded down to a sixteenth of its total, with hysteresis upwards.

    It falls at once, so that it never promises what is not there, and rises only a quarter of a step past the
    boundary: memory that hovers around one does not set the fleet gossiping.
    """

    def __init__(self) -> None:
        self._shown: int | None = None

    def handle_reading(self, free_bytes: int | None, total_bytes: int | None) -> int | None:
        """Return the free bytes to tell the fleet; None if the card does not say."""
        step = (total_bytes or 0) // NUM_STEPS
        if free_bytes is None or step == 0:
            self._shown = None
            return None
        floor = free_bytes // step * step
        if self._shown is None or floor < self._shown:
            self._shown = floor
        elif floor > self._shown:
            steady = (free_bytes - step // 4) // step * step
            self._shown = max(self._shown, steady)
        return self._shown
