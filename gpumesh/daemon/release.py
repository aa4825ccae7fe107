"""The operator's request to let go of the driver for a time, whatever runs and whether drained or not.

It ends by itself: a host whose driver is let go of takes no work, and one that was forgotten like that would
take none for ever. It is not kept: a daemon that starts looks at its cards.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

from gpumesh.errors import RequestError

MIN_FOR_S: Final = 10.0
MAX_FOR_S: Final = 24 * 3600.0


class ReleaseRequest:
    """At most one request stands at a time; the newest counts."""

    def __init__(self) -> None:
        self._ends_at = float("-inf")
        self._reason = ""
        self.until = 0.0
        """When it ends, Unix seconds, for people."""

    def ask(self, for_s: float, reason: str, *, now: float, unix: float) -> None:
        """Ask for ``for_s`` seconds from ``now`` (boot clock) on. Errors: RequestError."""
        if not MIN_FOR_S <= for_s <= MAX_FOR_S:
            raise RequestError("the driver can be let go of for 10 s to 24 h at a time")
        self._ends_at, self.until, self._reason = now + for_s, unix + for_s, reason

    def end(self, now: float) -> None:
        """End it before its time. Errors: RequestError if there is none."""
        if not self.words(now):
            raise RequestError("nobody has asked to let go of the driver")
        self._ends_at = float("-inf")

    def words(self, now: float) -> str:
        """Return what is told while it stands; empty when none does."""
        if now >= self._ends_at:
            return ""
        until = datetime.fromtimestamp(self.until, timezone.utc)
        why = f" ({self._reason})" if self._reason else ""
        return (
            f"the driver is let go of on request{why} until {until:%Y-%m-%d %H:%M:%S} UTC; "
            "`gpumesh release --end` takes it up again"
        )
