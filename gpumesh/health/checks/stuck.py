"""A card that is fully used by nobody: its engines did not come to an end with the process that used them.

The driver must have listed the processes, and there must be none. With MIG the parent's list is not the
instances' and nothing is said.

Thresholds:

- ``busy-for-nobody``: 100 % utilised without a process for 10 min. Keys: ``stuck_load``, ``stuck_after``.
  Source: own judgement: no context lives as long without its process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "stuck"
CLEAR_S: Final = 60.0

STUCK = Rule(
    NAME,
    "busy-for-nobody",
    "{stuck_load} % utilised without a process for {stuck_after}",
    Severity.WARNING,
    Action.RESET,
    "own judgement: no context lives as long without its process",
    advice="`nvidia-smi --gpu-reset`; where persistence mode is off, switch that on first",
    stand="stuck_after",
    clear_s=CLEAR_S,
)


def see(card: Card, full: int) -> Iterator[Symptom]:
    """Judge a full card by who is on it."""
    reading = card.reading
    percent = reading.utilization_gpu_percent
    is_full = percent is not None and percent >= full
    if is_full and reading.processes == () and not reading.mig_enabled:
        reason = f"{percent} % utilised, and no process is on the card"
        yield Symptom(STUCK, card.subject, reason, {"utilization_gpu_percent": percent})


def _start(config: Config) -> SeeCard:
    return lambda card: see(card, config.health.stuck_load)


CHECK = CardCheck(NAME, __doc__, (STUCK,), _start)
