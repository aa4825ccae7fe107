"""Local health: how much this member should doubt itself (Lifeguard, section IV.A).

The score rises when something suggests that the trouble is here (a probe that nobody answered, nacks that
never came, having to refute, a stall) and falls with each probe that succeeds. Probe interval and timeout are
multiplied by score + 1: an ailing accuser slows down before it accuses (consul#916).
"""

from __future__ import annotations


class Awareness:
    """A score of 0..``num_levels`` - 1; 0 is healthy."""

    __slots__ = ("_top", "score")

    def __init__(self, num_levels: int) -> None:
        self._top = max(0, num_levels - 1)
        self.score = 0

    def add(self, delta: int) -> None:
        """Change the score, kept within its bounds."""
        self.score = min(self._top, max(0, self.score + delta))

    def scale(self, duration_s: float) -> float:
        """Return the duration stretched by score + 1."""
        return duration_s * (self.score + 1)
