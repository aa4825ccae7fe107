"""How fast counters rise over a window: replays, link errors and corrected memory errors are judged by it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

MAX_COUNTERS: Final = 512
_NUM_STEPS: Final = 64
"""Samples kept of a window: looks that are closer together than a step of it add nothing."""
_MAX_GAP_WINDOWS: Final = 3.0


@dataclass(slots=True)
class _Course:
    latest: int
    looked_at: float
    samples: deque[tuple[float, int]] = field(default_factory=deque)


class Rising:
    """Remembers counters by key. ``window_s`` is what a rate is taken over.

    With looks further apart than the window a rate spans two looks. A longer pause than three such spans
    (suspend, hung driver) starts a counter anew: when its errors came nobody knows.
    """

    def __init__(self, window_s: float, interval_s: float) -> None:
        self._window_s = window_s
        self._max_gap_s = max(window_s, interval_s) * _MAX_GAP_WINDOWS
        self._courses: dict[str, _Course] = {}

    def rate(self, key: str, count: int, now: float) -> float | None:
        """Take a counter in; return its rise a second, None until it was watched for a whole window.

        A counter that fell was reset with its driver, and begins again.
        """
        course = self._courses.pop(key, None)
        if course is None or count < course.latest or now - course.looked_at > self._max_gap_s:
            course = _Course(count, now)
        course.latest, course.looked_at = count, now
        samples = course.samples
        if not samples or now - samples[-1][0] >= self._window_s / _NUM_STEPS:
            samples.append((now, count))
        while len(samples) > 1 and samples[1][0] <= now - self._window_s:
            samples.popleft()
        self._courses[key] = course
        while len(self._courses) > MAX_COUNTERS:
            del self._courses[next(iter(self._courses))]
        began_at, began_with = samples[0]
        passed_s = now - began_at
        return (count - began_with) / passed_s if passed_s >= self._window_s else None
