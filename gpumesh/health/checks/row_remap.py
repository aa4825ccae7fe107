"""Rows of memory that the card replaced by spare ones (Ampere and later), and whether that worked.

Remapped rows are a card mending itself and no fault; a remap that waits needs a reset, one that failed a
new card.

Thresholds:

- ``failed``: a remap failed: no spare row was left. Source: DCGM; NVIDIA's GPU memory error management.
- ``pending``: a remap waits for a reset. Source: DCGM; NVIDIA's GPU memory error management.
- ``many``: 512 or more rows remapped after uncorrectable errors. Keys: ``remapped_rows``. Source: DCGM.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "row-remap"
_SOURCE: Final = "DCGM; NVIDIA's GPU memory error management"

FAILED = Rule(
    NAME, "failed", "a remap failed: no spare row was left", Severity.CRITICAL, Action.REPLACE, _SOURCE
)
PENDING = Rule(
    NAME,
    "pending",
    "a remap waits for a reset",
    Severity.WARNING,
    Action.RESET,
    _SOURCE,
    advice="let the work end, then `nvidia-smi --gpu-reset` puts the spare row in place",
)
MANY = Rule(
    NAME,
    "many",
    "{remapped_rows} or more rows remapped after uncorrectable errors",
    Severity.WARNING,
    Action.REPLACE,
    "DCGM",
    advice="the card uses up its spare rows: plan its replacement",
)


def see(card: Card, many: int) -> Iterator[Symptom]:
    """Judge pending, failed and numerous remaps."""
    reading = card.reading
    if reading.remap_failed:
        yield Symptom(FAILED, card.subject, "a row of memory could not be remapped: no spare is left")
    if reading.remap_pending:
        yield Symptom(PENDING, card.subject, "a row of memory waits for a reset to be remapped")
    count = reading.remapped_uncorrectable
    if count is not None and count >= many:
        reason = f"{count} rows of memory were remapped after uncorrectable errors"
        yield Symptom(MANY, card.subject, reason, {"remapped_uncorrectable": count})


def _start(config: Config) -> SeeCard:
    return lambda card: see(card, config.health.remapped_rows)


CHECK = CardCheck(NAME, __doc__, (FAILED, PENDING, MANY), _start)
