"""Memory that nobody holds: work placed here would find less than the card has.

A process that ended and left its memory (a crashed context, a handle held by a hidden child), told from the
few hundred MiB that a driver or a desktop takes (4080S capture: 596 MiB at rest). The driver must have listed
the processes, and there must be none; with MIG nothing is said.

Thresholds:

- ``held-by-nobody``: 1024 MiB or more in use without a process for 10 min. Keys: ``leak_memory``,
  ``leak_after``. Source: own judgement: a desktop at rest held 596 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "memory-leak"
CLEAR_S: Final = 60.0
_MIB: Final = 1 << 20

LEAK = Rule(
    NAME,
    "held-by-nobody",
    "{leak_memory} MiB or more in use without a process for {leak_after}",
    Severity.WARNING,
    Action.RESET,
    "own judgement: a desktop at rest held 596 MiB",
    advice="look for the holder with `fuser -v /dev/nvidia*`; if there is none, reset the card",
    stand="leak_after",
    clear_s=CLEAR_S,
)


def see(card: Card, least_bytes: int) -> Iterator[Symptom]:
    """Judge the memory in use by who is on the card."""
    reading = card.reading
    used = reading.memory_used_bytes
    if used is not None and used >= least_bytes and reading.processes == () and not reading.mig_enabled:
        reason = f"{used // _MIB} MiB are in use, and no process is on the card"
        yield Symptom(LEAK, card.subject, reason, {"memory_used_bytes": used})


def _start(config: Config) -> SeeCard:
    return lambda card: see(card, config.health.leak_mib * _MIB)


CHECK = CardCheck(NAME, __doc__, (LEAK,), _start)
