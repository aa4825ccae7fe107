"""Persistence mode is off on a card that is built for servers: told, for it costs seconds and never health.

Without it the driver lets go of a card that nobody uses, and each start of a job pays for its initialisation
(netdata#14522: 6 s a call). On GeForce cards, whose desktop keeps them open, off is how they come and nothing
is said; a fleet that wants it there too requires it in its baseline.

Thresholds:

- ``off``: persistence mode is off on a card that is no GeForce. Source: NVIDIA's driver persistence guide;
  netdata#14522.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "persistence"
_DESKTOP: Final = ("GeForce", "TITAN")

OFF = Rule(
    NAME,
    "off",
    "persistence mode is off on a card that is no GeForce",
    Severity.INFO,
    Action.CONFIGURE,
    "NVIDIA's driver persistence guide; netdata#14522",
    advice="run `systemctl enable --now nvidia-persistenced`",
)


def see(card: Card) -> Iterator[Symptom]:
    """Tell of persistence mode that is off."""
    if card.reading.persistence is False and not any(word in card.info.name for word in _DESKTOP):
        yield Symptom(OFF, card.subject, "persistence mode is off")


def _start(_config: Config) -> SeeCard:
    return see


CHECK = CardCheck(NAME, __doc__, (OFF,), _start)
