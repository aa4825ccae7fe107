"""Does each card answer, where the driver itself does: a card that cannot be read is unknown, never healthy.

A card that the driver cannot reach at all is the inventory's matter (lost).

Thresholds:

- ``reset-required``: the driver says that this card must be reset (16). Source: NVML return codes.
- ``no-permission``: the driver refuses to read this card (4). Source: NVML return codes; MIG in a container
  gives this for memory.
- ``error``: the card answers with any other error. Source: NVML return codes; gpud#1180.
- ``partial``: the card was read, but some call on it failed, for 15 s. Keys: ``partial_after``. Source: own
  judgement: not supported is absent, any other refusal is a sign.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, Scope, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "answer"
CODE_NO_PERMISSION: Final = 4
CODE_RESET_REQUIRED: Final = 16

RESET_REQUIRED = Rule(
    NAME,
    "reset-required",
    "the driver says that this card must be reset (16)",
    Severity.CRITICAL,
    Action.RESET,
    "NVML return codes",
)
NO_PERMISSION = Rule(
    NAME,
    "no-permission",
    "the driver refuses to read this card (4)",
    Severity.WARNING,
    Action.CONFIGURE,
    "NVML return codes; MIG in a container gives this for memory",
    advice="give the daemon's user access to the card's /dev/nvidia*; in a container, pass the card through",
)
UNREAD = Rule(
    NAME,
    "error",
    "the card answers with any other error",
    Severity.WARNING,
    Action.INSPECT,
    "NVML return codes; gpud#1180",
    advice="look for the card's PCI address in the kernel's log; if it stays, drain and reset the card",
)


PARTIAL = Rule(
    NAME,
    "partial",
    "the card was read, but some call on it failed, for {partial_after}",
    Severity.WARNING,
    Action.INSPECT,
    "own judgement: not supported is absent, any other refusal is a sign",
    advice="look for the card's PCI address in the kernel's log",
    stand="partial_after",
    clear_s=60.0,
)


def see(card: Card) -> Iterator[Symptom]:
    """Say why this card could not be read, or not wholly."""
    state, code = card.state, card.state.error_code
    if not state.error and state.reading is not None:
        return
    evidence = {"nvml_code": code}
    said = state.error or "it gave no reading"
    if code == CODE_RESET_REQUIRED:
        yield Symptom(RESET_REQUIRED, card.subject, f"the card must be reset: {said}", evidence)
    elif state.reading is not None:
        yield Symptom(PARTIAL, card.subject, f"the card answers in part: {said}", evidence)
    else:
        rule = NO_PERMISSION if code == CODE_NO_PERMISSION else UNREAD
        yield Symptom(rule, card.subject, f"the card cannot be read: {said}", evidence)


def _start(_config: Config) -> SeeCard:
    return see


CHECK = CardCheck(NAME, __doc__, (RESET_REQUIRED, NO_PERMISSION, UNREAD, PARTIAL), _start, Scope.CARD)
