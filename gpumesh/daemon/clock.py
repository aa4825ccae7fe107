"""The one place that reads clocks.

Leases and timers run on CLOCK_BOOTTIME: it goes on during suspend, and nobody can set it. The wall clock is
read for what people see, never for a decision.
"""

from __future__ import annotations

import time


def boot_time() -> float:
    """Return seconds since boot, suspend included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def unix_offset() -> float:
    """Return what to add to :func:`boot_time` to get Unix time, as the wall clock stands now."""
    return time.time() - boot_time()
