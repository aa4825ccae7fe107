"""MIG that is switched on and carved into nothing, or not yet switched: a card that nobody can use as it is.

With MIG on, work runs on instances only. A card without any refuses each job although it looks idle and
healthy; during a reconfiguration that is so for a moment.

Thresholds:

- ``no-instances``: MIG is on and holds no instance, for 1 min. Keys: ``mig_after``. Source: NVIDIA's MIG user
  guide: CUDA finds no device on such a card.
- ``pending``: MIG is to be switched and waits for a reset, for 1 min. Keys: ``mig_after``. Source: NVML's
  pending MIG mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "mig"

EMPTY = Rule(
    NAME,
    "no-instances",
    "MIG is on and holds no instance, for {mig_after}",
    Severity.WARNING,
    Action.CONFIGURE,
    "NVIDIA's MIG user guide: CUDA finds no device on such a card",
    advice="make instances (`nvidia-smi mig -cgi ... -C`), or switch MIG off (`nvidia-smi -mig 0`)",
    stand="mig_after",
)
PENDING = Rule(
    NAME,
    "pending",
    "MIG is to be switched and waits for a reset, for {mig_after}",
    Severity.INFO,
    Action.RESET,
    "NVML's pending MIG mode",
    stand="mig_after",
)


def see(card: Card) -> Iterator[Symptom]:
    """Judge the mode and what is carved out; cards without MIG say nothing."""
    reading = card.reading
    is_on, is_wanted = reading.mig_enabled, reading.mig_enabled_pending
    if is_on and reading.mig_instances == ():
        yield Symptom(EMPTY, card.subject, "MIG is on, and there is no instance to run on")
    if is_on is not None and is_wanted is not None and is_on is not is_wanted:
        wanted = "on" if is_wanted else "off"
        yield Symptom(PENDING, card.subject, f"MIG is to be switched {wanted} and waits for a reset")


def _start(_config: Config) -> SeeCard:
    return see


CHECK = CardCheck(NAME, __doc__, (EMPTY, PENDING), _start)
