"""What a simulated machine is doing."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """What a simulated machine is doing."""

    OFF = "off"
    """Without power: silent."""
    DOWN = "down"
    """The kernel runs without a daemon: it refuses streams and answers that the port is unreachable."""
    RUNNING = "running"
    STALLED = "stalled"
    """The daemon is stopped; its kernel goes on queueing for it."""
    ASLEEP = "asleep"
    """Suspended to memory: silent; the clock will show the time that passed."""
