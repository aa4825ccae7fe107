"""Temperatures against the card's own limits; fixed thresholds only where the card names none.

A card knows where it slows down to save itself (2080S: 97 °C, 4080S: 96 °C) and up to where it is meant
to run (89 and 90 °C). One number for all cards would call a healthy GeForce sick and a cooking H100 well.
Newer cards name no degrees but the margin that is left (T.Limit), which is taken then; where the driver or
its binding is too old to tell what is left, no fixed number stands in for it, and the card's own slowdown
(``hw-slowdown``) speaks.

Thresholds:

- ``hot``: at or above the card's slowdown limit for 1 min (without limits: above 85 °C). Keys: ``hot_after``,
  ``hot``. Source: the card's own limit as in gpud; without one, SageMaker HyperPod's 85 °C for 1 min.
- ``warm``: above the card's highest operating temperature for 5 min (without limits: above 80 °C). Keys:
  ``warm_after``, ``warm``. Source: the card's own limit as in gpud; without one, SageMaker HyperPod's 80 °C
  for 5 min.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config, HealthConfig
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "temperature"
CLEAR_S: Final = 120.0
_ADVICE: Final = "look at fans, dust, airflow and the room's temperature"

HOT = Rule(
    NAME,
    "hot",
    "at or above the card's slowdown limit for {hot_after} (without limits: above {hot} °C)",
    Severity.CRITICAL,
    Action.INSPECT,
    "the card's own limit as in gpud; without one, SageMaker HyperPod's 85 °C for 1 min",
    advice=_ADVICE,
    stand="hot_after",
    clear_s=CLEAR_S,
)
WARM = Rule(
    NAME,
    "warm",
    "above the card's highest operating temperature for {warm_after} (without limits: above {warm} °C)",
    Severity.WARNING,
    Action.INSPECT,
    "the card's own limit as in gpud; without one, SageMaker HyperPod's 80 °C for 5 min",
    advice=_ADVICE,
    stand="warm_after",
    clear_s=CLEAR_S,
)


def see(card: Card, thresholds: HealthConfig) -> Iterator[Symptom]:
    """Compare what is read with the limits that the card names, in degrees or as a margin left."""
    value, margin = card.reading.temperature_c, card.reading.temperature_margin_c
    slowdown, highest = card.info.temperature_slowdown_c, card.info.temperature_max_c
    if slowdown is None and highest is None:
        if margin is not None:
            yield from _by_margin(card, margin)
        elif value is not None and card.info.temperature_slowdown_margin_c is None:
            yield from _without_limits(card, value, thresholds)
    elif value is not None:
        yield from _by_limits(card, value, slowdown, highest)


def _by_limits(card: Card, value: int, slowdown: int | None, highest: int | None) -> Iterator[Symptom]:
    if slowdown is not None and value >= slowdown:
        reason = f"{value} °C, and the card slows down from {slowdown} °C"
        yield Symptom(HOT, card.subject, reason, {"temperature_c": value, "limit_c": slowdown})
    if highest is not None and value > highest:
        reason = f"{value} °C, above the card's highest operating temperature of {highest} °C"
        yield Symptom(WARM, card.subject, reason, {"temperature_c": value, "limit_c": highest})


def _by_margin(card: Card, margin: int) -> Iterator[Symptom]:
    slowdown = card.info.temperature_slowdown_margin_c
    evidence = {"temperature_c": card.reading.temperature_c, "margin_c": margin}
    if slowdown is not None and margin <= slowdown:
        reason = f"{-margin} °C above the card's highest operating temperature: it slows down"
        yield Symptom(HOT, card.subject, reason, evidence)
    if margin < 0:
        reason = f"{-margin} °C above the card's highest operating temperature"
        yield Symptom(WARM, card.subject, reason, evidence)


def _without_limits(card: Card, value: int, thresholds: HealthConfig) -> Iterator[Symptom]:
    for rule, limit in ((HOT, thresholds.hot_c), (WARM, thresholds.warm_c)):
        if value > limit:
            reason = f"{value} °C, above {limit} °C; the card names no limit of its own"
            yield Symptom(rule, card.subject, reason, {"temperature_c": value, "limit_c": limit})


def _start(config: Config) -> SeeCard:
    return lambda card: see(card, config.health)


CHECK = CardCheck(NAME, __doc__, (HOT, WARM), _start)
