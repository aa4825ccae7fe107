"""Clocks that the driver holds down to keep a card cool, for so long that its work suffers.

For a while that is how the driver regulates a card under load, so it must stand without a break. Power cap,
idle and clocks set by hand are reasons of their own and never a fault.

Thresholds:

- ``slowdown``: software thermal slowdown for 30 min. Keys: ``soft_thermal_after``. Source:
  nvidia_gpu_exporter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.clock_reasons import SW_THERMAL
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "sw-thermal"
CLEAR_S: Final = 60.0

SLOWDOWN = Rule(
    NAME,
    "slowdown",
    "software thermal slowdown for {soft_thermal_after}",
    Severity.WARNING,
    Action.INSPECT,
    "nvidia_gpu_exporter",
    advice="the driver lowers clocks to hold the card's temperature: work runs slower until it is cooler",
    stand="soft_thermal_after",
    clear_s=CLEAR_S,
)


def see(card: Card) -> Iterator[Symptom]:
    """Judge the driver's reasons for this look's clocks."""
    reasons = card.reading.clocks_event_reasons
    if reasons is not None and reasons & SW_THERMAL:
        reason = f"software thermal slowdown at {card.reading.temperature_c} °C"
        yield Symptom(SLOWDOWN, card.subject, reason, {"reasons": reasons})


def _start(_config: Config) -> SeeCard:
    return see


CHECK = CardCheck(NAME, __doc__, (SLOWDOWN,), _start)
