"""Virtual time: what is to happen when, and what a host's own clock makes of it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

Action = Callable[..., None]


class Agenda:
    """What is to happen, in order of virtual time; ties happen in the order in which they were entered.

    Times are seconds of the world, which no host can read: each host has its own :class:`HostClock`.
    """

    __slots__ = ("_entries", "_num_entered", "now", "num_done")

    def __init__(self) -> None:
        self.now = 0.0
        self.num_done = 0
        self._entries: list[tuple[float, int, Action, tuple[Any, ...]]] = []
        self._num_entered = 0

    def __len__(self) -> int:
        return len(self._entries)

    def at(self, when: float, action: Action, *arguments: Any) -> None:
        """Enter an action for ``when``; an instant that has passed means now."""
        self._num_entered += 1
        heapq.heappush(self._entries, (max(when, self.now), self._num_entered, action, arguments))

    def after(self, delay_s: float, action: Action, *arguments: Any) -> None:
        """Enter an action for ``delay_s`` seconds from now."""
        self.at(self.now + delay_s, action, *arguments)

    def run_until(self, end: float) -> None:
        """Do everything up to and including ``end``, then stand at ``end``."""
        entries = self._entries
        while entries and entries[0][0] <= end:
            when, _, action, arguments = heapq.heappop(entries)
            self.now = when
            self.num_done += 1
            action(*arguments)
        self.now = max(self.now, end)


class HostClock:
    """A host's CLOCK_BOOTTIME: starts anywhere, runs a little fast or slow, never goes back.

    ``rate`` is seconds of this clock to a second of the world.
    """

    __slots__ = ("_base_local", "_base_world", "_latest", "_rate")

    def __init__(self, *, world_now: float, reads: float, rate: float = 1.0) -> None:
        self._base_world = world_now
        self._base_local = reads
        self._rate = rate
        self._latest = reads

    @property
    def rate(self) -> float:
        """Seconds of this clock to a second of the world."""
        return self._rate

    def read(self, world_now: float) -> float:
        """Return what the clock shows at ``world_now``."""
        shown = self._base_local + (world_now - self._base_world) * self._rate
        self._latest = max(self._latest, shown)
        return self._latest

    def read_at_least(self, world_now: float, floor: float) -> float:
        """Read the clock where rounding must not leave it short of ``floor``, a deadline that has come."""
        self._latest = max(self._latest, floor)
        return self.read(world_now)

    def world_time_of(self, local: float) -> float:
        """Return the world's time at which this clock will show ``local``, at its present rate."""
        return self._base_world + (local - self._base_local) / self._rate

    def set_rate(self, world_now: float, rate: float) -> None:
        """Let the clock run at another rate from now on."""
        self._base_local = self.read(world_now)
        self._base_world = world_now
        self._rate = rate

    def jump(self, world_now: float, forward_s: float) -> None:
        """Let the clock leap forward, as a virtual machine's does after it was moved."""
        self._base_local = self.read(world_now) + forward_s
        self._base_world = world_now
