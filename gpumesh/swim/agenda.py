"""Timers as data: what is due when, without callbacks (after foca's tokens).

Each entry has a key; setting a key again moves it. Entries of judgement can be put off together, when the
process stood still.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

Key = tuple[str, object]
"""(kind, subject), such as ``("suspicion", host_id)``."""


class Agenda:
    """A heap of (instant, key) with lazy deletion; each key stands in it at most once."""

    __slots__ = ("_at", "_heap", "_num")

    def __init__(self) -> None:
        self._at: dict[Key, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._num = 0

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, key: Key) -> bool:
        return key in self._at

    def set(self, key: Key, at: float) -> None:
        """Have the key come due at ``at``, instead of when it was."""
        self._num += 1
        self._at[key] = (at, self._num)
        heapq.heappush(self._heap, (at, self._num, key))
        if len(self._heap) > 64 + 4 * len(self._at):
            self._rebuild()

    def set_earlier(self, key: Key, at: float) -> None:
        """Have the key come due at ``at`` unless it is due before."""
        known = self._at.get(key)
        if known is None or at < known[0]:
            self.set(key, at)

    def cancel(self, key: Key) -> None:
        """Forget the key; unknown ones are fine."""
        self._at.pop(key, None)

    def at(self, key: Key) -> float | None:
        """Return when the key comes due, None when it does not."""
        known = self._at.get(key)
        return None if known is None else known[0]

    def next_at(self) -> float | None:
        """Return the earliest instant at which something is due, None when nothing is."""
        heap = self._heap
        while heap:
            at, num, key = heap[0]
            if self._at.get(key) == (at, num):
                return at
            heapq.heappop(heap)
        return None

    def take_due(self, now: float) -> Key | None:
        """Remove and return the earliest key that is due, None when none is."""
        at = self.next_at()
        if at is None or at > now:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._at[key]
        return key

    def postpone(self, gap_s: float, is_moved: Callable[[str], bool]) -> None:
        """Move all entries of the kinds that ``is_moved`` picks later by ``gap_s``."""
        for key, (at, num) in self._at.items():
            if is_moved(key[0]):
                self._at[key] = (at + gap_s, num)
        self._rebuild()

    def _rebuild(self) -> None:
        self._heap = [(at, num, key) for key, (at, num) in self._at.items()]
        heapq.heapify(self._heap)
