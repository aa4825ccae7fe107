"""What membership believes, put into words for people: hosts by name, the ids beside it in the fields."""

from __future__ import annotations

import re
from typing import Final

from gpumesh.mesh.arrivals import Arrivals
from gpumesh.mesh.events import EventQueue, Reporter, member_kind
from gpumesh.mesh.roster import Roster
from gpumesh.model import Scalar
from gpumesh.swim.ports import IdentityConflict, MemberChanged, SelfAccused

_HOST_ID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


class MemberNews:
    """Turns membership's events into the host's; who is met waits a little for a name.

    ``unix_offset``: what makes Unix time of the boot clock, in each call as it stands then.
    """

    def __init__(self, host_id: str, roster: Roster, events: EventQueue) -> None:
        self._host_id = host_id
        self._roster = roster
        self._events = events
        self._arrivals = Arrivals()

    def __len__(self) -> int:
        return len(self._arrivals)

    def next_deadline(self) -> float | None:
        """Return when one who was met has waited long enough for a name."""
        return self._arrivals.next_deadline()

    def in_words(self, reason: str) -> str:
        """Return the sentence with hosts' names in place of their ids."""
        return _HOST_ID.sub(lambda match: self._roster.name(match[0]), reason)

    def handle_member(self, change: MemberChanged, now: float, unix_offset: float) -> None:
        """Tell a change of another member; an arrival waits until its name is known."""
        earlier = self._arrivals.take(change.host_id)
        if earlier is not None:
            self._tell(earlier.change, earlier.at + unix_offset)
        if member_kind(change) == "host.joined" and not self._roster.is_named(change.host_id):
            crowded = self._arrivals.hold(change, now)
            if crowded is None:
                return
        self._tell(change, now + unix_offset)

    def handle_forgotten(self, host_id: str) -> None:
        """Let go of a member that was reaped."""
        self._arrivals.take(host_id)

    def handle_time(self, now: float, unix_offset: float, *, has_news: bool) -> None:
        """Tell of those whose name has come, or has not for too long."""
        waits_until = self._arrivals.next_deadline()
        if waits_until is not None and (has_news or now >= waits_until):
            for arrival in self._arrivals.due(self._roster.is_named, now):
                self._tell(arrival.change, arrival.at + unix_offset)

    def tell_accused(self, event: SelfAccused, unix: float) -> None:
        """Tell that this host refuted what others held of it."""
        by = f" by {self._roster.name(event.accuser)}" if event.accuser else ""
        reason = f"this host was held {event.held}{by} and answered that it lives"
        fields: dict[str, Scalar] = {"accuser": event.accuser, "incarnation": event.incarnation}
        self._reporter(self._host_id, unix).tell("host.refuted", reason, fields=fields)

    def tell_conflict(self, event: IdentityConflict, unix: float) -> None:
        """Tell that two daemons have one identity, or two hosts one address; repeated for as long as they do.

        Fields: ``shared`` is ``identity`` or ``address``; ``is_here``, whether it is this host's own;
        ``address``, of an identity where the other daemon is, else what is shared.
        """
        fields: dict[str, Scalar] = {
            "address": str(event.address),
            "shared": "address" if event.is_of_address else "identity",
            "is_here": event.is_here,
        }
        self._reporter(event.host_id, unix).tell("host.conflict", self.in_words(event.reason), fields=fields)

    def _tell(self, change: MemberChanged, unix: float) -> None:
        self._reporter(change.host_id, unix).tell_member(change, self.in_words(change.reason))

    def _reporter(self, host_id: str, unix: float) -> Reporter:
        return Reporter(self._events, host_id, self._roster.name(host_id), unix)
