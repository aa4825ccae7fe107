"""How far this host's wall clock is from its peers', by the time that stands in their digests.

What a digest shows is the difference less the time it was under way and unread, so the greatest of several
comes closest. Of the peers' differences, the middle one by size counts, so that a minority of wrong clocks
is left out, be it one of two. Good to a fraction of a second, which is what people need who compare logs: no
lease and no verdict on a peer rests on it (scylla#5164).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WINDOW_S: Final = 60.0
MAX_PEERS: Final = 64
"""Peers kept, those heard last: enough for a median in any fleet."""


@dataclass(slots=True)
class _Peer:
    began_at: float
    best_s: float
    before_s: float | None = None
    """The best of the window before."""


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """What to add to this host's wall clock for that of its peers, and how many those are."""

    offset_s: float
    num_peers: int


class PeerClocks:
    """The clocks of the peers heard last."""

    def __init__(self) -> None:
        self._peers: dict[str, _Peer] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def note(self, host_id: str, ahead_s: float, now: float) -> None:
        """Take in by how many seconds a peer's clock was ahead of this one when its digest was read."""
        peer = self._peers.pop(host_id, None)
        if peer is None or now - peer.began_at >= 2 * WINDOW_S:
            peer = _Peer(now, ahead_s)
        elif now - peer.began_at >= WINDOW_S:
            peer = _Peer(now, ahead_s, peer.best_s)
        peer.best_s = max(peer.best_s, ahead_s)
        while len(self._peers) >= MAX_PEERS:
            del self._peers[next(iter(self._peers))]
        self._peers[host_id] = peer

    def forget(self) -> None:
        """Drop all: this host's own clock was set."""
        self._peers.clear()

    def offset(self, now: float) -> ClockOffset | None:
        """Return the offset to the peers heard of late; None without any."""
        known = [
            peer.best_s if peer.before_s is None else max(peer.best_s, peer.before_s)
            for peer in self._peers.values()
            if now - peer.began_at < 2 * WINDOW_S
        ]
        known.sort(key=abs)
        return ClockOffset(known[(len(known) - 1) // 2], len(known)) if known else None
