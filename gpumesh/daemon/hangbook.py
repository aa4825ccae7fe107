"""A driver that does not answer, kept on disk before anybody is told, so that no restart can lose it."""

from __future__ import annotations

from typing import Final

from gpumesh.daemon.clock import boot_time
from gpumesh.daemon.statedir import StateDirectory
from gpumesh.health.devices import Probe
from gpumesh.health.hang import Hang, HangWatch, hang_from_json, hang_to_json

DOCUMENT: Final = "hang"
_LOSES: Final = "after a restart, a driver that hangs is told only once a look at it has hung again"
_LEAVES: Final = "after a restart, a hang that is over is told until the first look"


class HangBook:
    """Takes each look in, in place of :class:`HangWatch`, and keeps what stands in ``state``.

    A document that makes no sense is set aside and named; ``boot_id`` tells one that a reboot has cured.
    """

    def __init__(self, state: StateDirectory, boot_id: str) -> None:
        self._state = state
        self._boot_id = boot_id
        document = state.read(DOCUMENT)
        self._kept: Hang | None = None
        self._is_on_disk = document is not None
        try:
            self._kept = hang_from_json(document, boot_id, boot_time())
        except ValueError as error:
            state.set_aside(DOCUMENT, str(error))
            self._is_on_disk = False
        self._watch = HangWatch(self._kept)

    def before_the_first_look(self, now: float) -> Probe | None:
        """Return what is to be shown until this run has looked; None where nothing is known to hang."""
        return self._watch.before_the_first_look(now)

    def handle_probe(self, probe: Probe, now: float) -> Probe:
        """Take a look in, keep what it means, and return it as it is to be judged and shown."""
        told = self._watch.handle_probe(probe, now)
        standing = self._watch.standing
        if standing is None and self._is_on_disk:
            self._is_on_disk = not self._state.remove(DOCUMENT, leaves=_LEAVES)
        elif standing is not None and standing != self._kept:
            # Also where it could not be written durably: a volatile copy is there then.
            self._is_on_disk = True
            if not self._state.write(DOCUMENT, hang_to_json(standing, self._boot_id), loses=_LOSES):
                return told
        self._kept = standing
        return told
