"""What the driver itself says must be done to recover this card (NVML field 230, newer drivers).

Thresholds:

- ``reset``: GPU reset (1) or bus reset (6). Source: NVML field 230; nvidia_gpu_exporter.
- ``reboot``: node reboot (2) or system reboot (7). Source: NVML field 230; nvidia_gpu_exporter.
- ``drain``: drain peer-to-peer work (3), drain and reset (4), or recover the IMEX domain (5). Source: NVML
  field 230; nvidia_gpu_exporter.
- ``other``: a number that this version does not know. Source: NVML field 230; nvidia_gpu_exporter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "recovery-action"
_SOURCE: Final = "NVML field 230; nvidia_gpu_exporter"

RESET = Rule(NAME, "reset", "GPU reset (1) or bus reset (6)", Severity.CRITICAL, Action.RESET, _SOURCE)
REBOOT = Rule(
    NAME, "reboot", "node reboot (2) or system reboot (7)", Severity.CRITICAL, Action.REBOOT, _SOURCE
)
DRAIN = Rule(
    NAME,
    "drain",
    "drain peer-to-peer work (3), drain and reset (4), or recover the IMEX domain (5)",
    Severity.WARNING,
    Action.RESET,
    _SOURCE,
    advice="what runs may end; give the card no new work, then reset it",
)
OTHER = Rule(
    NAME,
    "other",
    "a number that this version does not know",
    Severity.WARNING,
    Action.INSPECT,
    _SOURCE,
    advice="`nvidia-smi -q` names the recovery action in words",
)

ACTIONS: Final[Mapping[int, tuple[Rule, str]]] = {
    1: (RESET, "GPU reset"),
    2: (REBOOT, "node reboot"),
    3: (DRAIN, "drain peer-to-peer work"),
    4: (DRAIN, "drain and reset"),
    5: (DRAIN, "recover the IMEX domain"),
    6: (RESET, "bus reset"),
    7: (REBOOT, "system reboot"),
}
"""What the driver's number means: the rule that it breaks, and its words."""


def see(card: Card) -> Iterator[Symptom]:
    """Pass on what the driver asks for."""
    number = card.reading.recovery_action
    if number:
        rule, words = ACTIONS.get(number, (OTHER, f"recovery action {number}"))
        yield Symptom(rule, card.subject, f"the driver asks for: {words}", {"recovery_action": number})


def _start(_config: Config) -> SeeCard:
    return see


CHECK = CardCheck(NAME, __doc__, (RESET, REBOOT, DRAIN, OTHER), _start)
