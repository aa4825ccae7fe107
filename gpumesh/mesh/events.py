"""What happened, as events for the journal and ``/v1/events``: made from changes, queued within a bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

from gpumesh.model import Baseline, Event, Finding, Gpu, HostState, Reachability, Scalar, Severity, Verdict
from gpumesh.swim.ports import MemberChanged

KINDS: Final[Mapping[str, str]] = {
    "host.joined": "it is new here, or started again",
    "host.suspected": "it does not answer, and may be failed",
    "host.refuted": "it was suspected or failed, and lives",
    "host.failed": "it, or its daemon, is gone without a goodbye",
    "host.left": "it said goodbye",
    "host.state": "whether it takes work has changed",
    "host.conflict": "two daemons have one identity, or two hosts one address; it repeats while they do",
    "gpu.lost": "a card is gone",
    "gpu.verdict": "what is held of a card has changed",
    "baseline.changed": "the host meets lines of its baseline no longer, or again",
    "xid": "the driver reported an error of a card",
}
"""Every kind of event, and what it says. ``xid`` comes of the daemon's looks, all others of the mesh."""
MAX_EVENTS: Final = 1024
_LOST_CHECK: Final = "inventory"
_LOST_CODE: Final = "lost"
_WORST_FIRST: Final = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
_MET: Final[Mapping[bool | None, str]] = {True: "is met", False: "is not met", None: "is unknown"}


class EventQueue:
    """Events waiting to be read, oldest first; when nobody reads, the oldest go and are counted."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self.num_dropped = 0

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Queue an event."""
        self.num_dropped += len(self._events) == MAX_EVENTS
        self._events.append(event)

    def take(self) -> Event | None:
        """Take the oldest event out; None when there is none."""
        return self._events.popleft() if self._events else None


class Reporter:
    """Puts changes of one host into words, with the instant and the host's name filled in."""

    def __init__(self, queue: EventQueue, host_id: str, name: str, time: float) -> None:
        self._queue = queue
        self._host_id = host_id
        self._name = name
        self._time = time

    def tell(
        self, kind: str, reason: str, *, subject: str = "host", fields: Mapping[str, Scalar] | None = None
    ) -> None:
        """Queue one event about the host."""
        event = Event(kind, self._time, self._host_id, self._name, subject, reason, dict(fields or {}))
        self._queue.put(event)

    def tell_member(self, change: MemberChanged, reason: str) -> None:
        """Tell what membership now believes, if it is news to people; ``reason`` has hosts by name."""
        kind = member_kind(change)
        if kind:
            fields: dict[str, Scalar] = {
                "address": str(change.address),
                "epoch": change.epoch,
                "incarnation": change.incarnation,
            }
            if change.accusers:
                fields["accusers"] = ",".join(change.accusers)
            self.tell(kind, reason, fields=fields)

    def tell_state(self, before: HostState, after: HostState, reason: str) -> None:
        """Tell a change of the headline state."""
        fields: dict[str, Scalar] = {"from": before.value, "to": after.value}
        self.tell("host.state", reason or "takes new work", fields=fields)

    def tell_gpus(self, before: Mapping[str, Gpu], after: Mapping[str, Gpu]) -> None:
        """Tell which cards were lost and whose verdict changed; a card met for the first time is no news."""
        for uuid, gpu in after.items():
            old = before.get(uuid)
            if old is None:
                continue
            subject = f"gpu/{uuid}"
            reason = _worst_reason(gpu.findings)
            if is_lost(gpu) and not is_lost(old):
                self.tell("gpu.lost", reason or "the driver no longer lists it", subject=subject)
            if gpu.verdict is not old.verdict:
                fields: dict[str, Scalar] = {"from": old.verdict.value, "to": gpu.verdict.value}
                silent = "its findings are gone" if gpu.verdict is Verdict.HEALTHY else f"is {gpu.verdict}"
                self.tell("gpu.verdict", reason or silent, subject=subject, fields=fields)

    def tell_baseline(self, before: Baseline | None, after: Baseline | None) -> None:
        """Tell which lines of the access baseline changed their outcome."""
        if before is None or after is None or before == after:
            return
        changes = list(_baseline_changes(before, after))
        if changes:
            self.tell("baseline.changed", "; ".join(changes), subject="baseline")


def member_kind(change: MemberChanged) -> str:
    """Return the kind of event that a change of membership is; empty for what is no news."""
    if change.after is Reachability.ALIVE:
        if change.before in {None, Reachability.LEFT} or change.is_new_epoch:
            return "host.joined"
        return "" if change.before is Reachability.ALIVE else "host.refuted"
    # Who was gone before this host heard of it is told to nobody: it is history.
    if change.before is None or change.before is change.after:
        return ""
    kinds = {
        Reachability.SUSPECT: "host.suspected",
        Reachability.FAILED: "host.failed",
        Reachability.LEFT: "host.left",
    }
    return kinds[change.after]


def is_lost(gpu: Gpu) -> bool:
    """Tell whether a card that belongs to the host cannot be reached any more."""
    return gpu.index is None or any(
        finding.check == _LOST_CHECK and finding.evidence.get("code") == _LOST_CODE
        for finding in gpu.findings
    )


def _worst_reason(findings: tuple[Finding, ...]) -> str:
    counting = [item for item in findings if item.silenced_until is None]
    worst = min(counting, key=lambda item: _WORST_FIRST.index(item.severity), default=None)
    return worst.reason if worst else ""


def _baseline_changes(before: Baseline, after: Baseline) -> Iterator[str]:
    if before.mode != after.mode or before.source != after.source:
        yield f"now {after.mode} by {after.source}"
    old = {item.name: item for item in before.items}
    for item in after.items:
        was = old.get(item.name)
        if was is None or was.is_met is not item.is_met or was.expected != item.expected:
            yield f"{item.name} {_MET[item.is_met]}: {item.found or 'not found'}, expected {item.expected}"
