"""The operator's silences, kept across restarts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpumesh.daemon.clock import boot_time, unix_offset
from gpumesh.daemon.statedir import StateDirectory
from gpumesh.errors import RequestError
from gpumesh.health.rules import HOST, subject_of
from gpumesh.health.silences import Silence, Silences
from gpumesh.model import Gpu

DOCUMENT: Final = "silences"
_MIN_PREFIX: Final = 8


class SilenceBook:
    """Takes silences and keeps them; the health engine reads :attr:`silences` with each look."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state
        self.silences = Silences()
        now = boot_time()
        self.silences.restore(state.read(DOCUMENT), now=now, unix=now + unix_offset())

    def standing(self) -> tuple[Silence, ...]:
        """Return those that have not run out."""
        return self.silences.standing(boot_time())

    def add(self, check: str, subject: str, for_s: float, reason: str) -> Silence:
        """Silence a check and keep it. Errors: RequestError."""
        now = boot_time()
        made = self.silences.add(check, subject, for_s, reason=reason, now=now, unix=now + unix_offset())
        self._keep()
        return made

    def end(self, check: str, subject: str) -> None:
        """End a silence. Errors: RequestError if there is none such."""
        if not self.silences.end(check, subject, now=boot_time()):
            raise RequestError(f"{check} is not silenced{f' on {subject}' if subject else ''}")
        self._keep()

    def _keep(self) -> None:
        document = self.silences.to_json(boot_time())
        self._state.write(DOCUMENT, document, loses="silences end with the next restart")


def subject_named(name: str, gpus: Iterable[Gpu]) -> str:
    """Return the subject that an operator means: empty (all), ``host``, or a card by UUID or index.

    The start of a UUID will do. Errors: RequestError if no card, or more than one, is meant.
    """
    if name in {"", HOST}:
        return name
    cards = list(gpus)
    meant = [gpu for gpu in cards if name in {gpu.uuid, str(gpu.index)}]
    if not meant and len(name) >= _MIN_PREFIX:
        meant = [gpu for gpu in cards if gpu.uuid.startswith(name)]
    if len(meant) != 1:
        known = ", ".join(f"{gpu.index} {gpu.uuid}" for gpu in cards) or "none"
        raise RequestError(f"gpu {name[:96]!r}: names {len(meant)} cards of this host; there are: {known}")
    return subject_of(meant[0].uuid)
