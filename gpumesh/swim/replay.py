"""A sliding window over one sender's counters: each number passes once, old ones never."""

from __future__ import annotations

from typing import Final

WINDOW: Final = 1024
"""How far datagrams may overtake each other; what is older is refused unseen."""
_MASK: Final = (1 << WINDOW) - 1


class ReplayWindow:
    """The newest counter accepted and a bit for each of the ``WINDOW`` before it."""

    __slots__ = ("_newest", "_seen")

    def __init__(self) -> None:
        self._newest = -1
        self._seen = 0

    def is_fresh(self, counter: int) -> bool:
        """Return whether this counter may still be accepted; changes nothing."""
        if counter > self._newest:
            return True
        behind = self._newest - counter
        return behind < WINDOW and not (self._seen >> behind) & 1

    def accept(self, counter: int) -> bool:
        """Note the counter of an authenticated datagram; return whether it is the newest."""
        ahead = counter - self._newest
        if ahead > 0:
            self._seen = ((self._seen << ahead) & _MASK if ahead < WINDOW else 0) | 1
            self._newest = counter
            return True
        self._seen |= 1 << -ahead
        return False
