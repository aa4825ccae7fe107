"""Whether this host takes new work, by its people: the operator's word first, then the sharing rule's."""

from __future__ import annotations

import logging
from typing import Final

from gpumesh.daemon.statedir import StateDirectory
from gpumesh.lease.sharing import outrank
from gpumesh.model import Admission

DOCUMENT: Final = "admission"
_AGAIN: Final = "if it should not be, `gpumesh cordon` it again"
_OPERATOR_WORDS: Final = {item.value: item for item in (Admission.CORDONED, Admission.DRAINING)}

_log = logging.getLogger(__name__)


class AdmissionBook:
    """A cordon or drain is the operator's and stays until lifted, restarts included."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state
        document = state.read(DOCUMENT)
        if document is None and DOCUMENT in state.losses:
            _log.warning("whether this host was cordoned or drained is not known: it is open; %s", _AGAIN)
        said = str((document or {}).get("admission", Admission.OPEN.value))
        word = _OPERATOR_WORDS.get(said, Admission.OPEN)
        if word is Admission.OPEN and said != Admission.OPEN.value:
            _log.warning("%s: %r is no admission: this host is open; %s", state.path, said[:40], _AGAIN)
        self._operator = (word, str((document or {}).get("reason", ""))[:200])
        self._sharing = (Admission.OPEN, "")

    @property
    def current(self) -> tuple[Admission, str]:
        """What holds now, and why."""
        return outrank(*self._operator, *self._sharing)

    def set_operator(self, admission: Admission, reason: str) -> None:
        """Take the operator's word and keep it."""
        self._operator = (admission, reason)
        document = {"admission": admission.value, "reason": reason}
        self._state.write(DOCUMENT, document, loses="a cordon or drain ends with the next restart")

    def set_sharing(self, admission: Admission, reason: str) -> None:
        """Take what the sharing rule says now."""
        self._sharing = (admission, reason)
