"""The memory's temperature against the card's own limit for it.

Cards that do not tell their memory's temperature, or name no limit for it, say nothing and are not judged: no
number fits GDDR and HBM alike.

Thresholds:

- ``hot``: memory above the card's highest memory temperature for 1 min. Keys: ``hot_after``. Source: gpud,
  DCGM: the card's MEM_MAX.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "memory-temperature"
CLEAR_S: Final = 120.0

HOT = Rule(
    NAME,
    "hot",
    "memory above the card's highest memory temperature for {hot_after}",
    Severity.WARNING,
    Action.INSPECT,
    "gpud, DCGM: the card's MEM_MAX",
    advice="look at fans, dust, airflow and the room's temperature; on older cards, the memory's thermal "
    "pads",
    stand="hot_after",
    clear_s=CLEAR_S,
)


def see(card: Card) -> Iterator[Symptom]:
    """Compare what is read with the limit that the card names."""
    memory, memory_max = card.reading.temperature_memory_c, card.info.temperature_memory_max_c
    if memory is not None and memory_max is not None and memory > memory_max:
        reason = f"memory at {memory} °C, above the card's limit of {memory_max} °C"
        yield Symptom(HOT, card.subject, reason, {"temperature_c": memory, "limit_c": memory_max})


def _start(_config: Config) -> SeeCard:
    return see


CHECK = CardCheck(NAME, __doc__, (HOT,), _start)
