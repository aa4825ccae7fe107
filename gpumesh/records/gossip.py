"""The queue of changed entries that ride on gossip: fewest sendings first, then newest first.

An entry is sent ``4·⌈log10(n+1)⌉`` times, which reaches a fleet of n with high probability (SWIM, section
4.1; memberlist's retransmit multiplier). A newer version of an entry replaces the older one, whatever its
turn; the queue is bounded when something is put in, not when it hurts (consul#9927).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.records.bounds import MAX_QUEUED

Key = tuple[str, str]
"""Host id and entry name."""

_RETRANSMIT: Final = 4
_SMALLEST_BYTES: Final = 40
_MAX_PASSED: Final = 32
"""Updates passed over for want of room in one search: a full queue must not be walked for each datagram."""
_MAX_MISSES: Final = 64
_FRAMING_BYTES: Final = 3


def num_transmissions(num_members: int) -> int:
    """Return how often an update is sent in a fleet of this size: 4·⌈log10(n+1)⌉, at least 4."""
    # The number of decimal digits of n is ⌈log10(n+1)⌉ for every n above 0, without rounding errors.
    return _RETRANSMIT * len(str(max(1, num_members)))


class GossipQueue:
    """Encoded updates by how often each was sent."""

    def __init__(self) -> None:
        self._tiers: list[dict[Key, bytes]] = [{}]
        self._tier_of: dict[Key, int] = {}
        self._misses: dict[Key, int] = {}
        self._num_alike = 0
        """Digests in a row that told of all as it is held here, since something was last put in."""
        self.num_shed = 0

    def __len__(self) -> int:
        return len(self._tier_of)

    def put(self, key: Key, update: bytes) -> None:
        """Queue the newest version of an entry; an older one of the same key is no longer sent."""
        self.discard(key)
        self._num_alike = 0
        if len(self._tier_of) >= MAX_QUEUED:
            self._shed()
        self._tiers[0][key] = update
        self._tier_of[key] = 0

    def discard(self, key: Key) -> None:
        """Take an entry out, if it is queued."""
        self._misses.pop(key, None)
        tier = self._tier_of.pop(key, None)
        if tier is not None:
            del self._tiers[tier][key]

    def handle_digest(self, *, is_alike: bool, num_members: int) -> None:
        """Take a digest: its peer holds of all hosts just what is held here, or does not.

        After as many in a row as an entry is sent times, all that is queued is known and told no more: when a
        whole fleet starts, each host would else tell the others for half a minute what all of them hold. Who
        lacks it all the same shows that by its digest.
        """
        self._num_alike = self._num_alike + 1 if is_alike else 0
        if self._tier_of and self._num_alike >= num_transmissions(num_members):
            for key in list(self._tier_of):
                self.discard(key)

    def take(self, limit_bytes: int, num_members: int) -> list[bytes]:
        """Return updates to send now, together at most ``limit_bytes`` with 3 bytes of framing each."""
        if not self._tier_of:
            return []
        chosen: list[tuple[Key, bytes, int]] = []
        misfits: list[Key] = []
        left_bytes, num_passed = limit_bytes, 0
        for number, key, update in self._in_turn():
            size_bytes = len(update) + _FRAMING_BYTES
            if size_bytes <= left_bytes:
                chosen.append((key, update, number))
                left_bytes -= size_bytes
            else:
                num_passed += 1
                if size_bytes > limit_bytes:
                    misfits.append(key)
            if left_bytes < _SMALLEST_BYTES or num_passed >= _MAX_PASSED:
                break
        limit = num_transmissions(num_members)
        for key, update, number in chosen:
            self._sent(key, update, number + 1, limit)
        for key in misfits:
            self._missed(key)
        return [update for _, update, _ in chosen]

    def _in_turn(self) -> Iterator[tuple[int, Key, bytes]]:
        for number, tier in enumerate(self._tiers):
            for key in reversed(tier):
                yield number, key, tier[key]

    def _missed(self, key: Key) -> None:
        # What no datagram has room for must not stand at the head for ever (alertmanager#1412); the peers'
        # digests show that it is missing, and a stream brings it.
        self._misses[key] = self._misses.get(key, 0) + 1
        if self._misses[key] >= _MAX_MISSES:
            self.discard(key)
            self.num_shed += 1

    def _sent(self, key: Key, update: bytes, times: int, limit: int) -> None:
        self.discard(key)
        if times >= limit:
            return
        while len(self._tiers) <= times:
            self._tiers.append({})
        self._tiers[times][key] = update
        self._tier_of[key] = times

    def _shed(self) -> None:
        for tier in reversed(self._tiers):
            if tier:
                self.discard(next(iter(tier)))
                self.num_shed += 1
                return
