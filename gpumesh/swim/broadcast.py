"""News waiting to ride on datagrams: each piece is sent a limited number of times, the least sent first.

Among pieces sent equally often the newest goes first, so that a refutation overtakes the accusation it
answers. A newer statement about a member takes the place of the older ones. The queue is bounded when
something is put in (consul#9927: a queue that was bounded only when it was pruned reached 160,000).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

_SMALLEST_PIECE_BYTES: Final = 24
"""No statement is shorter: with less room than this the search ends."""


class _Piece:
    __slots__ = ("data", "subject", "tier", "topic")

    def __init__(self, subject: str, topic: Hashable, data: bytes) -> None:
        self.subject = subject
        self.topic = topic
        self.data = data
        self.tier = 0


class BroadcastQueue:
    """Pieces of news by how often they were sent. ``subject`` is whom one is about, ``topic`` names it."""

    __slots__ = ("_by_subject", "_limit", "_num", "_tiers", "num_dropped")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._num = 0
        self._tiers: dict[int, dict[Hashable, _Piece]] = {}
        self._by_subject: dict[str, dict[Hashable, _Piece]] = {}
        self.num_dropped = 0
        """Pieces that gave way because the queue was full."""

    def __len__(self) -> int:
        return self._num

    def put(self, subject: str, topic: Hashable, data: bytes, *, keeps_others: bool = False) -> None:
        """Queue a piece; other pieces about the subject are dropped unless ``keeps_others``."""
        known = self._by_subject.get(subject)
        if known:
            if not keeps_others:
                self.drop(subject)
            elif topic in known:
                self._remove(known[topic])
        if self._num >= self._limit:
            self._give_way()
        piece = _Piece(subject, topic, data)
        self._by_subject.setdefault(subject, {})[topic] = piece
        self._tiers.setdefault(0, {})[topic] = piece
        self._num += 1

    def drop(self, subject: str) -> None:
        """Forget everything about the subject: it is superseded or the subject is gone."""
        for piece in list(self._by_subject.get(subject, {}).values()):
            self._remove(piece)

    def take(self, limit_bytes: int, limit_sends: int, first: str | None = None) -> list[bytes]:
        """Return pieces that fit into ``limit_bytes``, counting one send of each; those about ``first`` lead.

        A piece that has been sent ``limit_sends`` times leaves the queue.
        """
        if not self._num:
            return []
        taken: list[_Piece] = []
        room = limit_bytes
        about_first = self._by_subject.get(first, {}) if first is not None else {}
        for piece in about_first.values():
            if len(piece.data) <= room:
                room -= len(piece.data)
                taken.append(piece)
        for tier in sorted(self._tiers):
            if room < _SMALLEST_PIECE_BYTES:
                break
            for piece in reversed(self._tiers[tier].values()):
                if room < _SMALLEST_PIECE_BYTES:
                    break
                if len(piece.data) <= room and piece.subject != first:
                    room -= len(piece.data)
                    taken.append(piece)
        for piece in taken:
            self._sent(piece, limit_sends)
        return [piece.data for piece in taken]

    def _sent(self, piece: _Piece, limit_sends: int) -> None:
        if piece.tier + 1 >= limit_sends:
            self._remove(piece)
            return
        self._leave_tier(piece)
        piece.tier += 1
        self._tiers.setdefault(piece.tier, {})[piece.topic] = piece

    def _leave_tier(self, piece: _Piece) -> None:
        tier = self._tiers[piece.tier]
        del tier[piece.topic]
        if not tier:
            del self._tiers[piece.tier]

    def _remove(self, piece: _Piece) -> None:
        self._leave_tier(piece)
        pieces = self._by_subject[piece.subject]
        del pieces[piece.topic]
        if not pieces:
            del self._by_subject[piece.subject]
        self._num -= 1

    def _give_way(self) -> None:
        tier = self._tiers[max(self._tiers)]
        self._remove(next(iter(tier.values())))
        self.num_dropped += 1
