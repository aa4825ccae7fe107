"""Pages of memory taken out of use after errors (cards before Ampere).

A few retired pages over a card's life are normal. The count of the last week is kept in memory only: after a
restart of the daemon the week starts again.

Thresholds:

- ``full``: 63 or more retired pages. Keys: ``retired_pages``. Source: DCGM; the table holds 64.
- ``rising``: more than 15 pages retired for double-bit errors, more than 1 of them within a week. Keys:
  ``retired_double_bit``, ``retired_a_week``. Source: DCGM.
- ``pending``: a page waits for a reset to be retired. Source: DCGM.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config, HealthConfig
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "retired-pages"
WEEK_S: Final = 7 * 24 * 3600.0
_MAX_CHANGES: Final = 64
_MAX_CARDS: Final = 64

FULL = Rule(
    NAME,
    "full",
    "{retired_pages} or more retired pages",
    Severity.CRITICAL,
    Action.REPLACE,
    "DCGM; the table holds 64",
)
RISING = Rule(
    NAME,
    "rising",
    "more than {retired_double_bit} pages retired for double-bit errors, more than {retired_a_week} of them "
    "within a week",
    Severity.CRITICAL,
    Action.REPLACE,
    "DCGM",
)
PENDING = Rule(
    NAME,
    "pending",
    "a page waits for a reset to be retired",
    Severity.WARNING,
    Action.RESET,
    "DCGM",
    advice="let the work end, then `nvidia-smi --gpu-reset`, or work may hit the bad page again",
)


class RetiredPages:
    """Judges the counts, and remembers for a week when the double-bit count rose."""

    def __init__(self, thresholds: HealthConfig) -> None:
        self._thresholds = thresholds
        self._rises: dict[str, deque[tuple[float, int]]] = {}

    def __call__(self, card: Card) -> Iterator[Symptom]:
        """Judge one card's retired pages."""
        reading = card.reading
        single, double = reading.retired_sbe, reading.retired_dbe
        if reading.retired_pending:
            yield Symptom(PENDING, card.subject, "a page of memory waits for a reset to be retired")
        if single is None and double is None:
            return
        total = (single or 0) + (double or 0)
        evidence = {"retired_sbe": single, "retired_dbe": double}
        if total >= self._thresholds.retired_pages:
            yield Symptom(FULL, card.subject, f"{total} pages of memory are retired", evidence)
        num_new = 0 if double is None else self._risen(card.info.uuid, double, card.now)
        is_many = double is not None and double > self._thresholds.retired_double_bit
        if is_many and num_new > self._thresholds.retired_a_week:
            reason = f"{double} pages are retired for double-bit errors, {num_new} of them within a week"
            yield Symptom(RISING, card.subject, reason, evidence)

    def _risen(self, uuid: str, count: int, now: float) -> int:
        """Return by how much the count rose within the last week, as far as it was watched."""
        counts = self._rises.setdefault(uuid, deque(maxlen=_MAX_CHANGES))
        if not counts or counts[-1][1] != count:
            counts.append((now, count))
        # The newest count from before the week is its baseline and stays.
        while len(counts) > 1 and counts[1][0] <= now - WEEK_S:
            counts.popleft()
        while len(self._rises) > _MAX_CARDS:
            del self._rises[next(iter(self._rises))]
        return max(0, count - counts[0][1])


def _start(config: Config) -> SeeCard:
    return RetiredPages(config.health)


CHECK = CardCheck(NAME, __doc__, (FULL, RISING, PENDING), _start)
