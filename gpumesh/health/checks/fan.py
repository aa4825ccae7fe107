"""A fan that stands still while the card is hot.

Many GeForce cards stop their fans on purpose while they are cool (4080S capture: 0 % at 46 °C). Cards
without a fan of their own (L40S, H100) say nothing and are not judged.

Thresholds:

- ``stopped``: 0 % at 70 °C or more, for 1 min. Keys: ``fan_hot``, ``fan_after``. Source: own judgement: cards
  that rest their fans start them between 50 and 60 °C.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "fan"
CLEAR_S: Final = 60.0

STOPPED = Rule(
    NAME,
    "stopped",
    "0 % at {fan_hot} °C or more, for {fan_after}",
    Severity.WARNING,
    Action.INSPECT,
    "own judgement: cards that rest their fans start them between 50 and 60 °C",
    advice="the fan is stuck, unplugged or set to 0 % by hand; on a water-cooled card check the pump",
    stand="fan_after",
    clear_s=CLEAR_S,
)


def see(card: Card, hot_c: int) -> Iterator[Symptom]:
    """Judge a standing fan by the card's temperature."""
    fan, temperature = card.reading.fan_percent, card.reading.temperature_c
    if fan == 0 and temperature is not None and temperature >= hot_c:
        reason = f"the fan stands still at {temperature} °C"
        yield Symptom(STOPPED, card.subject, reason, {"fan_percent": fan, "temperature_c": temperature})


def _start(config: Config) -> SeeCard:
    return lambda card: see(card, config.health.fan_hot_c)


CHECK = CardCheck(NAME, __doc__, (STOPPED,), _start)
