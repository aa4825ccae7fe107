"""Memory errors: those that ECC could not correct, and so many corrected ones that more is to come.

Volatile counts start again at zero with a reset, so a finding goes with the cure. Corrected errors are how
ECC works and no fault, until there are very many; the caches (SRAM) and the memory (DRAM) have limits of
their own, and a card that comes towards one within a day is told before. Cards without ECC (GeForce) say
nothing and are not judged; nor is a location that an older card does not tell apart.

Thresholds:

- ``uncorrected``: 1 uncorrected error or more since the last reset (volatile count). Keys:
  ``ecc_uncorrected``. Source: DCGM, gpud, NVSentinel and Azure's checks agree.
- ``sram-limit``: the driver says that the card's caches had more errors than they may. Source: NVML's SRAM
  threshold, as DCGM takes it; told to root alone.
- ``sram-corrected``: 10000 corrected errors or more in the caches since the last reset. Keys:
  ``ecc_sram_corrected``. Source: Azure's node health checks: azurehpc#649, azurehpc#650.
- ``dram-corrected``: 20000000 corrected errors or more in the memory since the last reset. Keys:
  ``ecc_dram_corrected``. Source: Azure's node health checks: azurehpc#649, azurehpc#650.
- ``sram-rising``: 1000 corrected errors or more in the caches within an hour. Keys: ``ecc_sram_rate``.
  Source: own judgement: Azure's limit would be reached within a day; Xid 92 is no more than a note either.
- ``dram-rising``: 1000000 corrected errors or more in the memory within an hour. Keys: ``ecc_dram_rate``.
  Source: own judgement: Azure's limit would be reached within a day; Xid 92 is no more than a note either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpumesh.config import Config, HealthConfig
from gpumesh.health.rising import Rising
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "ecc"
HOUR_S: Final = 3600.0
_AZURE: Final = "Azure's node health checks: azurehpc#649, azurehpc#650"
_INSPECT: Final = "let the work end and reset the card; if they come again, have it looked at"

UNCORRECTED = Rule(
    NAME,
    "uncorrected",
    "{ecc_uncorrected} uncorrected error or more since the last reset (volatile count)",
    Severity.CRITICAL,
    Action.RESET,
    "DCGM, gpud, NVSentinel and Azure's checks agree",
    advice="results computed since may be wrong: end the work on this card, then `nvidia-smi --gpu-reset`",
)
SRAM_LIMIT = Rule(
    NAME,
    "sram-limit",
    "the driver says that the card's caches had more errors than they may",
    Severity.CRITICAL,
    Action.REPLACE,
    "NVML's SRAM threshold, as DCGM takes it; told to root alone",
    advice="have the vendor's field diagnostic run; it decides on a replacement",
)
SRAM_MANY = Rule(
    NAME,
    "sram-corrected",
    "{ecc_sram_corrected} corrected errors or more in the caches since the last reset",
    Severity.WARNING,
    Action.INSPECT,
    _AZURE,
    advice=_INSPECT,
)
DRAM_MANY = Rule(
    NAME,
    "dram-corrected",
    "{ecc_dram_corrected} corrected errors or more in the memory since the last reset",
    Severity.WARNING,
    Action.INSPECT,
    _AZURE,
    advice=_INSPECT,
)
SRAM_RISING = Rule(
    NAME,
    "sram-rising",
    "{ecc_sram_rate} corrected errors or more in the caches within an hour",
    Severity.INFO,
    Action.NONE,
    "own judgement: Azure's limit would be reached within a day; Xid 92 is no more than a note either",
    clear_s=HOUR_S,
)
DRAM_RISING = Rule(
    NAME,
    "dram-rising",
    "{ecc_dram_rate} corrected errors or more in the memory within an hour",
    Severity.INFO,
    Action.NONE,
    "own judgement: Azure's limit would be reached within a day; Xid 92 is no more than a note either",
    clear_s=HOUR_S,
)


@dataclass(frozen=True, slots=True)
class _Location:
    field: str
    """Of the reading: corrected errors since the last reset."""
    words: str
    many: Rule
    limit: int
    rising: Rule
    limit_an_hour: int


def _locations(thresholds: HealthConfig) -> tuple[_Location, ...]:
    sram, dram = (thresholds.ecc_sram_corrected, thresholds.ecc_dram_corrected)
    sram_rate, dram_rate = (thresholds.ecc_sram_rate, thresholds.ecc_dram_rate)
    return (
        _Location("ecc_sram_corrected_volatile", "caches", SRAM_MANY, sram, SRAM_RISING, sram_rate),
        _Location("ecc_dram_corrected_volatile", "memory", DRAM_MANY, dram, DRAM_RISING, dram_rate),
    )


class Ecc:
    """Judges the counts, and remembers the corrected ones over an hour."""

    def __init__(self, thresholds: HealthConfig, interval_s: float) -> None:
        self._least_uncorrected = thresholds.ecc_uncorrected
        self._rising = Rising(HOUR_S, interval_s)
        self._locations = _locations(thresholds)

    def __call__(self, card: Card) -> Iterator[Symptom]:
        """Judge one card's errors."""
        reading = card.reading
        count = reading.ecc_dbe_volatile
        if count is not None and count >= self._least_uncorrected:
            errors = "error" if count == 1 else "errors"
            reason = f"{count} uncorrected memory {errors} since the last reset{_where(card)}"
            yield Symptom(UNCORRECTED, card.subject, reason, {"ecc_dbe_volatile": count})
        if reading.ecc_sram_threshold_exceeded:
            yield Symptom(SRAM_LIMIT, card.subject, "the driver says that its caches had too many errors")
        for location in self._locations:
            corrected: int | None = getattr(reading, location.field)
            if corrected is not None:
                yield from self._corrected(card, location, corrected)

    def _corrected(self, card: Card, location: _Location, count: int) -> Iterator[Symptom]:
        if count >= location.limit:
            reason = f"{count} corrected errors in the card's {location.words} since the last reset"
            yield Symptom(location.many, card.subject, reason, {location.field: count})
        rate = self._rising.rate(f"{card.info.uuid}/{location.field}", count, card.now)
        if rate is not None and rate * HOUR_S >= location.limit_an_hour:
            an_hour = round(rate * HOUR_S)
            reason = f"{an_hour} corrected errors an hour in the card's {location.words}"
            yield Symptom(location.rising, card.subject, reason, {location.field: count, "an_hour": an_hour})


def _where(card: Card) -> str:
    """Return where uncorrected errors were, if that is known already: locations are read less often."""
    caches, memory = card.reading.ecc_sram_uncorrected_volatile, card.reading.ecc_dram_uncorrected_volatile
    parts = (("caches", caches), ("memory", memory))
    told = [f"{count} in the {words}" for words, count in parts if count]
    return f" ({', '.join(told)})" if told else ""


def _start(config: Config) -> SeeCard:
    return Ecc(config.health, config.longest_look_s)


CHECK = CardCheck(
    NAME, __doc__, (UNCORRECTED, SRAM_LIMIT, SRAM_MANY, DRAM_MANY, SRAM_RISING, DRAM_RISING), _start
)
