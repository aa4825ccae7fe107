"""Hosts that were met and whose names are still on the way: told once the name is here, or soon anyway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gpumesh.swim.ports import MemberChanged

MAX_WAIT_S: Final = 5.0
"""A record comes within a second or two of its host; an event without a name is better than a late one."""
MAX_WAITING: Final = 1024


@dataclass(frozen=True, slots=True)
class Arrival:
    """A host that was met."""

    change: MemberChanged
    at: float


class Arrivals:
    """At most 1,024 arrivals that wait for a name, oldest first; each host at most once."""

    def __init__(self) -> None:
        self._waiting: dict[str, Arrival] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def hold(self, change: MemberChanged, now: float) -> Arrival | None:
        """Let an arrival wait; return the one that must be told at once instead, if there are too many."""
        arrival = Arrival(change, now)
        if len(self._waiting) >= MAX_WAITING:
            return arrival
        self._waiting.pop(change.host_id, None)
        self._waiting[change.host_id] = arrival
        return None

    def take(self, host_id: str) -> Arrival | None:
        """Take out a host's arrival: it is told before anything else about that host."""
        return self._waiting.pop(host_id, None)

    def due(self, is_named: Callable[[str], bool], now: float) -> list[Arrival]:
        """Take out those whose name has come and those that waited long enough."""
        ready = [
            host_id
            for host_id, arrival in self._waiting.items()
            if is_named(host_id) or now - arrival.at >= MAX_WAIT_S
        ]
        return [self._waiting.pop(host_id) for host_id in ready]

    def next_deadline(self) -> float | None:
        """Return when the first of them has waited long enough."""
        if not self._waiting:
            return None
        return next(iter(self._waiting.values())).at + MAX_WAIT_S
