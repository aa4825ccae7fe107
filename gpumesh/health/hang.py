"""A driver that does not answer, remembered until it does: whoever runs next tells it from the start.

A monitor that is restarted while its driver hangs must neither forget the fault nor find it anew each time
(NVSentinel#1748: restarted 49 times, and the fault was never told). What is kept holds within one boot; a
reboot is the cure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gpumesh.health.devices import Probe

MAX_CALL: Final = 128
"""Length of a call's name, as the prober's record of it holds."""
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Hang:
    """A driver that does not answer."""

    since_at: float
    """Boot clock, seconds."""
    call: str
    """The call that it is stuck in; empty where that is not known."""


class HangWatch:
    """Follows one hang from its first look to the driver's next answer.

    ``standing`` is what an earlier run of this boot kept.
    """

    def __init__(self, standing: Hang | None = None) -> None:
        self._standing = standing

    @property
    def standing(self) -> Hang | None:
        """What is to be kept on disk; None: the driver answers."""
        return self._standing

    def before_the_first_look(self, now: float) -> Probe | None:
        """Return what is to be shown until this run has looked; None where nothing is known to hang."""
        if self._standing is None:
            return None
        error = "an earlier run saw the driver hang, and nobody has seen it answer since"
        return _hung(Probe(driver=None, error=error), self._standing, now)

    def handle_probe(self, probe: Probe, now: float) -> Probe:
        """Take a look in; return it with when the hang began, also if this look did not get to the driver.

        ``now`` is seconds on the boot clock.
        """
        if probe.is_hung:
            before = self._standing or Hang(max(0.0, now - probe.hung_for_s), "")
            self._standing = replace(before, call=probe.call[:MAX_CALL] or before.call)
        elif _is_answered(probe):
            self._standing = None
        return probe if self._standing is None else _hung(probe, self._standing, now)


def _is_answered(probe: Probe) -> bool:
    """Tell whether the driver has answered; its refusal is an answer, the prober's own end is none."""
    return probe.error_code is not None or (probe.driver is not None and not probe.error)


def _hung(probe: Probe, hang: Hang, now: float) -> Probe:
    return replace(probe, is_hung=True, call=hang.call, hung_for_s=max(0.0, now - hang.since_at))


def hang_to_json(hang: Hang, boot_id: str) -> dict[str, Any]:
    """Return the document to keep on disk."""
    return {"version": _VERSION, "boot_id": boot_id, "since_at": hang.since_at, "call": hang.call}


def hang_from_json(document: Any, boot_id: str, now: float) -> Hang | None:
    """Return what an earlier run of this boot kept; None without a document, and for one of another boot.

    Errors: ValueError for what is no such document; the text says where.
    """
    if document is None:
        return None
    if not isinstance(document, Mapping) or document.get("version") != _VERSION:
        raise ValueError(f"is not a version {_VERSION} document")
    kept_boot_id, since_at, call = (document.get(key) for key in ("boot_id", "since_at", "call"))
    if not (isinstance(kept_boot_id, str) and kept_boot_id):
        raise ValueError("boot_id is no text")
    if kept_boot_id != boot_id:
        return None
    if isinstance(since_at, bool) or not isinstance(since_at, int | float) or not 0 <= since_at <= now:
        raise ValueError("since_at is no instant since this boot")
    if not isinstance(call, str) or len(call) > MAX_CALL or (call and not call.isprintable()):
        raise ValueError("call is no short text")
    return Hang(float(since_at), call)
