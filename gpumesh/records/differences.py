"""Which peers' digests differ from what is held, and when a stream sync with one of them is worth its cost.

Gossip usually closes a difference within a second or two, so a stream is opened only for one that lasted;
but a host of whose present run nothing is held yet is asked at once. A fleet hash differs all the time while
a large fleet changes, so syncs that brought nothing make the next one wait longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpumesh.records.bounds import MAX_DIFFERENCES
from gpumesh.records.codec import Digest

GRACE_OWN_S: Final = 0.5
"""How long gossip may take to bring a change of the peer's own record."""
GRACE_FLEET_S: Final = 1.5
"""How long gossip may take to bring what the peer holds of others."""
REPEAT_OWN_S: Final = 1.0
"""Least time between two syncs for peers' own records."""
REPEAT_FLEET_S: Final = 5.0
MAX_REPEAT_S: Final = 60.0
EXPIRY_S: Final = 120.0
"""A digest older than this says nothing any more."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A peer's latest digest that did not match, and since when."""

    digest: Digest
    since_at: float
    due_at: float
    is_own: bool
    """The peer's own record differs, not only what it holds of others."""


@dataclass(frozen=True, slots=True)
class _Ask:
    """The last sync that was asked for because of a peer's own record."""

    state: tuple[int, int]
    """Epoch and hash that the peer's record had then."""
    again_at: float
    wait_s: float


class Differences:
    """Peers to look into, oldest due first, and the rate at which it is done."""

    def __init__(self) -> None:
        self._differences: dict[str, Difference] = {}
        self._asks: dict[str, _Ask] = {}
        self._own_allowed_at = 0.0
        self._fleet_allowed_at = 0.0
        self._repeat_s = REPEAT_FLEET_S

    def __len__(self) -> int:
        return len(self._differences)

    @property
    def num_asked(self) -> int:
        """Peers remembered because a sync with them was asked for."""
        return len(self._asks)

    def note(self, host_id: str, digest: Digest, *, is_own: bool, is_unheard: bool, now: float) -> None:
        """Remember that this peer's digest differs; a lasting difference keeps its first instant."""
        held = self._differences.get(host_id)
        if held is None and len(self._differences) >= MAX_DIFFERENCES:
            return
        grace_s = 0.0 if is_unheard else GRACE_OWN_S if is_own else GRACE_FLEET_S
        since_at, due_at = now, now + grace_s
        if held is not None and held.is_own == is_own:
            since_at, due_at = held.since_at, min(held.due_at, due_at)
        ask = self._asks.get(host_id)
        if is_own and ask is not None and ask.state == _state(digest):
            # A sync did not bring this very state (an entry beyond a bound, two hosts with one identity):
            # asking again at each ping would be a stream a second for ever.
            due_at = max(due_at, ask.again_at)
        self._differences[host_id] = Difference(digest, since_at, due_at, is_own)

    def clear(self, host_id: str) -> None:
        """Drop a peer whose digest matches, or who is gone."""
        self._differences.pop(host_id, None)
        self._asks.pop(host_id, None)

    def due(self, now: float) -> list[tuple[str, Difference]]:
        """Return what lasted long enough and may be looked into now, own records and oldest first."""
        if not self._differences:
            return []
        for host_id in [key for key, item in self._differences.items() if now - item.since_at > EXPIRY_S]:
            del self._differences[host_id]
        ready = [
            (host_id, item)
            for host_id, item in self._differences.items()
            if now >= item.due_at and now >= (self._own_allowed_at if item.is_own else self._fleet_allowed_at)
        ]
        return sorted(ready, key=lambda pair: (not pair[1].is_own, pair[1].due_at, pair[0]))

    def ask(self, host_id: str, *, was_last_useful: bool, now: float) -> None:
        """Note that a sync with this peer begins now; the next of its kind waits."""
        difference = self._differences.pop(host_id)
        self._own_allowed_at = now + REPEAT_OWN_S
        if difference.is_own:
            self._remember(host_id, _state(difference.digest), now)
        else:
            grown_s = REPEAT_FLEET_S if was_last_useful else min(MAX_REPEAT_S, 2 * self._repeat_s)
            self._repeat_s = grown_s
            self._fleet_allowed_at = now + grown_s

    def _remember(self, host_id: str, state: tuple[int, int], now: float) -> None:
        before = self._asks.pop(host_id, None)
        is_again = before is not None and before.state == state
        wait_s = min(MAX_REPEAT_S, 2 * before.wait_s) if before is not None and is_again else REPEAT_FLEET_S
        while len(self._asks) >= MAX_DIFFERENCES:
            del self._asks[next(iter(self._asks))]
        self._asks[host_id] = _Ask(state, now + wait_s, wait_s)


def _state(digest: Digest) -> tuple[int, int]:
    return digest.epoch, digest.own_hash
