"""A card that is fully used by nobody: its engines did not come to an end with the process that used them.

The driver must have listed the processes, and there must be none. With MIG the parent's list is not the
instances' and nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "stuck"
FULL_PERCENT: Final = 100
STAND_S: Final = 600.0
CLEAR_S: Final = 60.0

STUCK = Rule(
    NAME,
    "busy-for-nobody",
    f"{FULL_PERCENT} % utilised without a process for health.stuck_after (10 min)",
    Severity.WARNING,
    Action.RESET,
    "own judgement: no context lives as long without its process",
    advice="`nvidia-smi --gpu-reset`; where persistence mode is off, switch that on first",
    stand_s=STAND_S,
    clear_s=CLEAR_S,
)


def see(card: Card, rule: Rule = STUCK) -> Iterator[Symptom]:
    """Judge a full card by who is on it."""
    reading = card.reading
    percent = reading.utilization_gpu_percent
    if percent == FULL_PERCENT and reading.processes == () and not reading.mig_enabled:
        reason = f"{percent} % utilised, and no process is on the card"
        yield Symptom(rule, card.subject, reason, {"utilization_gpu_percent": percent})


def _start(config: Config) -> SeeCard:
    rule = replace(STUCK, stand_s=config.health.stuck_after_s)
    return lambda card: see(card, rule)


CHECK = CardCheck(NAME, __doc__, (STUCK,), _start)
