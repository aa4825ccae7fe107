"""Cards that NVLink switches connect must be registered with the fabric before CUDA can start on them.

Until then each program ends with cudaErrorSystemNotReady (802), while the card looks idle and healthy. After
a boot the registration takes its time. Cards without a fabric say nothing and are not judged.

Thresholds:

- ``not-ready``: the card's registration with the fabric is not completed, for 5 min. Keys: ``fabric_after``.
  Source: NVIDIA's Fabric Manager user guide; 5 min are own judgement.
- ``failed``: the card's registration with the fabric ended with an error. Source: NVIDIA's Fabric Manager
  user guide.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "fabric"
NOT_STARTED: Final = 1
IN_PROGRESS: Final = 2
COMPLETED: Final = 3
CLEAR_S: Final = 15.0
_SOURCE: Final = "NVIDIA's Fabric Manager user guide"
_ADVICE: Final = (
    "look at `systemctl status nvidia-fabricmanager` and its log; its version must be the driver's"
)

WAITING = Rule(
    NAME,
    "not-ready",
    "the card's registration with the fabric is not completed, for {fabric_after}",
    Severity.CRITICAL,
    Action.CONFIGURE,
    _SOURCE + "; 5 min are own judgement",
    advice=_ADVICE,
    stand="fabric_after",
    clear_s=CLEAR_S,
)
REFUSED = Rule(
    NAME,
    "failed",
    "the card's registration with the fabric ended with an error",
    Severity.CRITICAL,
    Action.RESET,
    _SOURCE,
    advice=_ADVICE,
    clear_s=CLEAR_S,
)


def see(card: Card) -> Iterator[Symptom]:
    """Judge how far the registration has come."""
    state, status = card.reading.fabric_state, card.reading.fabric_status
    if state in {NOT_STARTED, IN_PROGRESS}:
        words = "has not begun" if state == NOT_STARTED else "goes on"
        reason = f"the card's registration with the NVLink fabric {words}: CUDA cannot start on it"
        yield Symptom(WAITING, card.subject, reason, {"fabric_state": state})
    elif state == COMPLETED and status:
        reason = f"the card's registration with the NVLink fabric failed (NVML {status})"
        yield Symptom(REFUSED, card.subject, reason, {"fabric_status": status})


def _start(_config: Config) -> SeeCard:
    return see


CHECK = CardCheck(NAME, __doc__, (WAITING, REFUSED), _start)
