"""Memory errors that ECC could not correct since the driver was loaded.

The volatile count starts again at zero with a reset, so the finding goes with the cure. Corrected errors
are how ECC works and no fault; cards without ECC (GeForce) say nothing and are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "ecc"

UNCORRECTED = Rule(
    NAME,
    "uncorrected",
    "{ecc_uncorrected} uncorrected error or more since the last reset (volatile count)",
    Severity.CRITICAL,
    Action.RESET,
    "DCGM, gpud, NVSentinel and Azure's checks agree",
    advice="results computed since may be wrong: end the work on this card, then `nvidia-smi --gpu-reset`",
)


def see(card: Card, least: int) -> Iterator[Symptom]:
    """Judge the volatile count of double-bit errors."""
    count = card.reading.ecc_dbe_volatile
    if count is not None and count >= least:
        errors = "error" if count == 1 else "errors"
        reason = f"{count} uncorrected memory {errors} since the last reset"
        yield Symptom(UNCORRECTED, card.subject, reason, {"ecc_dbe_volatile": count})


def _start(config: Config) -> SeeCard:
    return lambda card: see(card, config.health.ecc_uncorrected)


CHECK = CardCheck(NAME, __doc__, (UNCORRECTED,), _start)
