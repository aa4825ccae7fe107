"""Whether this host takes new work, by its people: the operator's word first, then the sharing rule's."""

from __future__ import annotations

from typing import Final

from gpumesh.daemon.statedir import StateDirectory
from gpumesh.model import Admission

DOCUMENT: Final = "admission"
_OPERATOR_WORDS: Final = {item.value: item for item in (Admission.CORDONED, Admission.DRAINING)}


class AdmissionBook:
    """A cordon or drain is the operator's and stays until lifted, restarts included."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state
        document = state.read(DOCUMENT) or {}
        word = _OPERATOR_WORDS.get(str(document.get("admission")), Admission.OPEN)
        self._operator = (word, str(document.get("reason", ""))[:200])
        self._sharing = (Admission.OPEN, "")

    @property
    def current(self) -> tuple[Admission, str]:
        """What holds now, and why."""
        return self._operator if self._operator[0] is not Admission.OPEN else self._sharing

    def set_operator(self, admission: Admission, reason: str) -> None:
        """Take the operator's word and keep it."""
        self._operator = (admission, reason)
        document = {"admission": admission.value, "reason": reason}
        self._state.write(DOCUMENT, document, loses="a cordon or drain ends with the next restart")

    def set_sharing(self, admission: Admission, reason: str) -> None:
        """Take what the sharing rule says now."""
        self._sharing = (admission, reason)
