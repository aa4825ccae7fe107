"""Where the owner itself stands after its start or a recovery: joining, cooling down, settled.

Only the owner moves through this table and publishes where it stands; observers read it. A host that was
given up or was unhealthy first proves itself for the cooldown before it takes new work (k8s#30972,
device-plugin#234).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gpumesh.errors import TransitionError
from gpumesh.model import Phase, Word


class Trigger(Word):
    """What moves a host from one phase to another."""

    INTRODUCED = "introduced"
    """Its own health is known, and a peer was heard or none was expected."""
    RESTARTED = "restarted"
    """An earlier run of this host was known to the fleet."""
    ACCUSED = "held failed"
    """Others held it failed and may have moved its work."""
    RECOVERED = "recovered"
    """Its own verdict came back from unhealthy."""
    COOLED = "cooled down"
    """The cooldown is over."""


TRANSITIONS: Final[Mapping[tuple[Phase, Trigger], Phase]] = MappingProxyType(
    {
        (Phase.JOINING, Trigger.INTRODUCED): Phase.SETTLED,
        (Phase.JOINING, Trigger.RESTARTED): Phase.COOLDOWN,
        (Phase.JOINING, Trigger.ACCUSED): Phase.COOLDOWN,
        (Phase.JOINING, Trigger.RECOVERED): Phase.COOLDOWN,
        (Phase.SETTLED, Trigger.RESTARTED): Phase.COOLDOWN,
        (Phase.SETTLED, Trigger.ACCUSED): Phase.COOLDOWN,
        (Phase.SETTLED, Trigger.RECOVERED): Phase.COOLDOWN,
        (Phase.COOLDOWN, Trigger.RESTARTED): Phase.COOLDOWN,
        (Phase.COOLDOWN, Trigger.ACCUSED): Phase.COOLDOWN,
        (Phase.COOLDOWN, Trigger.RECOVERED): Phase.COOLDOWN,
        (Phase.COOLDOWN, Trigger.COOLED): Phase.SETTLED,
    }
)

_REASONS: Final[Mapping[Trigger, str]] = MappingProxyType(
    {
        Trigger.RESTARTED: "its daemon started again",
        Trigger.ACCUSED: "others held it failed",
        Trigger.RECOVERED: "it was unhealthy until now",
    }
)


class OwnPhase:
    """The owner's own phase and, while it cools down, until when and why."""

    def __init__(self, *, is_first_run: bool, cooldown_s: float, now: float) -> None:
        self._cooldown_s = cooldown_s
        self._cooled_at: float | None = None
        self.phase = Phase.JOINING
        self.reason = ""
        """Why it cools down; empty otherwise."""
        if not is_first_run:
            self.handle(Trigger.RESTARTED, now)

    def handle(self, trigger: Trigger, now: float) -> bool:
        """Move on; tell whether the phase changed. Errors: TransitionError, nothing changed."""
        after = TRANSITIONS.get((self.phase, trigger))
        if after is None:
            raise TransitionError(f"a host that is {self.phase} cannot become anything by: {trigger}")
        before = self.phase
        self.phase = after
        self.reason = _REASONS.get(trigger, "") if after is Phase.COOLDOWN else ""
        self._cooled_at = now + self._cooldown_s if after is Phase.COOLDOWN else None
        return after is not before

    def handle_timer(self, now: float) -> bool:
        """End a cooldown whose time is over; tell whether the phase changed."""
        if self._cooled_at is None or now < self._cooled_at:
            return False
        return self.handle(Trigger.COOLED, now)

    def next_deadline(self) -> float | None:
        """Return when the cooldown ends, None while there is none."""
        return self._cooled_at
