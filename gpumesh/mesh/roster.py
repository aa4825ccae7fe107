"""The observer's side: what this host believes of every host, its state, and since when."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpumesh.config import LeaseConfig
from gpumesh.lease.state import Standing, headline
from gpumesh.lease.table import Judgement, LeaseTable, Sighting, is_alike
from gpumesh.mesh.events import EventQueue, Reporter
from gpumesh.mesh.parts import Parts
from gpumesh.model import Gpu, HealthReport, HostState, HostView, Phase, Reachability
from gpumesh.records.engine import RecordChanged, Records
from gpumesh.swim.ports import MemberView


@dataclass(slots=True)
class _Belief:
    """What was concluded of one host last time it was judged."""

    state: HostState
    reason: str
    since: float
    judgement: Judgement
    stamp: int
    """Of the record that it was concluded from."""
    health: HealthReport | None = None
    gpus: dict[str, Gpu] | None = None
    """The cards last told about, also across a restart, so that a card lost meanwhile is news."""


class Roster:
    """Records, membership and leases brought together, host by host."""

    def __init__(self, *, self_id: str, records: Records, config: LeaseConfig, events: EventQueue) -> None:
        self._self_id = self_id
        self._records = records
        self._events = events
        self._parts: dict[str, Parts] = {}
        self._beliefs: dict[str, _Belief] = {}
        self._reasons: dict[str, str] = {}
        self._own_health: HealthReport | None = None
        self._stamps = itertools.count(1)
        self.leases = LeaseTable(config)
        self.counters: Counter[str] = Counter()

    @property
    def sizes(self) -> Mapping[str, int]:
        """Hosts of which something is kept here, by what it is; reaped with the member or the record."""
        return {
            "leases": len(self.leases),
            "roster_records": len(self._parts),
            "roster_states": len(self._beliefs),
            "roster_reasons": len(self._reasons),
        }

    def limits(self, num_members: int) -> Mapping[str, int]:
        """Return how many there may be where the member table has so many rows, this host's own left out."""
        hosts = num_members + 1
        return {
            "leases": num_members,
            "roster_records": self._records.limits["hosts"],
            "roster_states": hosts,
            "roster_reasons": hosts,
        }

    def set_own_health(self, report: HealthReport) -> None:
        """Take this host's own report whole, which its record carries shortened."""
        self._own_health = report

    def set_reason(self, host_id: str, reason: str) -> None:
        """Take membership's words for the reachability that it now believes in."""
        self._reasons[host_id] = reason

    def name(self, host_id: str) -> str:
        """Return the host's name for people."""
        parts = self._parts.get(host_id)
        return parts.facts.name if parts and parts.facts else host_id[:8]

    def is_named(self, host_id: str) -> bool:
        """Tell whether the host's name is known."""
        parts = self._parts.get(host_id)
        return parts is not None and parts.facts is not None

    def handle_change(self, change: RecordChanged) -> None:
        """Read a changed entry of a host's record."""
        epoch = self._records.epoch(change.host_id)
        if epoch is None:
            self._parts.pop(change.host_id, None)
            return
        parts = self._parts.get(change.host_id)
        if parts is None or parts.epoch != epoch:
            parts = self._parts[change.host_id] = Parts(epoch, parts.facts if parts else None)
        parts.read(self._records, change.host_id, change.name, self.counters)
        parts.stamp = next(self._stamps)

    def forget(self, host_id: str) -> None:
        """Drop a host that was reaped."""
        self._parts.pop(host_id, None)
        self._beliefs.pop(host_id, None)
        self._reasons.pop(host_id, None)
        self.leases.forget(host_id)

    def judge(self, rows: Iterable[MemberView], now: float, unix: float) -> None:
        """Conclude the state of these hosts anew and tell what changed."""
        for row in rows:
            self._judge(row, now, unix)

    def next_change_at(self) -> float | None:
        """Return when time alone will change some host's state; None: only news will."""
        times = (belief.judgement.changes_at for belief in self._beliefs.values())
        return min((at for at in times if at is not None), default=None)

    def host_views(self, rows: Sequence[MemberView], now: float) -> tuple[HostView, ...]:
        """Return all judged hosts as values, sorted by id."""
        judged = sorted((row for row in rows if row.host_id in self._beliefs), key=lambda row: row.host_id)
        return tuple(self._host_view(row, now) for row in judged)

    def _judge(self, row: MemberView, now: float, unix: float) -> None:
        host_id = row.host_id
        judgement = self._judge_lease(row, now)
        belief = self._beliefs.get(host_id)
        stamp = self._stamp(row)
        if belief is not None and belief.stamp == stamp and is_alike(belief.judgement, judgement):
            belief.judgement = judgement
            return
        standing = self._standing(row, judgement)
        state, reason = headline(standing)
        reporter = Reporter(self._events, host_id, self.name(host_id), unix)
        if belief is None:
            belief = self._beliefs[host_id] = _Belief(state, reason, unix, judgement, stamp)
        elif belief.state is not state:
            reporter.tell_state(belief.state, state, reason)
            belief.since = unix
        belief.state, belief.reason = state, reason
        belief.judgement, belief.stamp = judgement, stamp
        if standing.health is not None and standing.health is not belief.health:
            _tell_health(belief, standing.health, reporter)

    def _stamp(self, row: MemberView) -> int:
        """Return what tells the record that counts for this run of the host from any other state of it."""
        if row.host_id == self._self_id:
            return next(self._stamps)
        parts = self._parts.get(row.host_id)
        return parts.stamp if parts is not None and parts.epoch >= row.epoch else 0

    def _judge_lease(self, row: MemberView, now: float) -> Judgement:
        if row.host_id == self._self_id:
            leaving = "this host says goodbye" if row.reachability is Reachability.LEFT else ""
            return Judgement(row.reachability, leaving)
        parts = self._parts.get(row.host_id)
        reason = "" if row.reachability is Reachability.ALIVE else self._reasons.get(row.host_id, "")
        sighting = Sighting(row.host_id, row.epoch, row.reachability, row.evidence_at, row.beat, reason)
        return self.leases.judge(sighting, parts.lease_version if parts else -1, now)

    def _standing(self, row: MemberView, judgement: Judgement) -> Standing:
        parts = self._parts.get(row.host_id)
        if parts is None or parts.epoch < row.epoch:
            # What an earlier run said of itself holds no longer.
            return Standing(judgement.reachability, judgement.reason, phase=Phase.JOINING)
        return Standing(
            reachability=judgement.reachability,
            reachability_reason=judgement.reason,
            health=self._own_health if row.host_id == self._self_id else parts.health,
            admission=parts.admission,
            admission_reason=parts.admission_reason,
            phase=Phase.COOLDOWN if judgement.is_cooling else parts.lease.phase,
            phase_reason=parts.lease.reason if parts.lease.phase is Phase.COOLDOWN else "",
            is_isolated=parts.lease.is_isolated,
        )

    def _host_view(self, row: MemberView, now: float) -> HostView:
        belief = self._beliefs[row.host_id]
        parts = self._parts.get(row.host_id)
        standing = self._standing(row, belief.judgement)
        is_self = row.host_id == self._self_id
        return HostView(
            host_id=row.host_id,
            address=row.address,
            epoch=row.epoch,
            incarnation=row.incarnation,
            reachability=standing.reachability,
            state=belief.state,
            reason=belief.reason,
            state_since=belief.since,
            evidence_age_s=0.0 if is_self else _age_s(row.evidence_at, now),
            facts=parts.facts if parts else None,
            admission=standing.admission,
            admission_reason=standing.admission_reason,
            phase=standing.phase,
            health=standing.health,
            is_isolated=standing.is_isolated,
            is_self=is_self,
            transport=row.transport,
        )


def _age_s(evidence_at: float, now: float) -> float | None:
    """Return how old evidence is; None for none at all."""
    return max(0.0, now - evidence_at) if math.isfinite(evidence_at) else None


def _tell_health(belief: _Belief, health: HealthReport, reporter: Reporter) -> None:
    gpus = {gpu.uuid: gpu for gpu in health.gpus}
    if belief.gpus is not None:
        reporter.tell_gpus(belief.gpus, gpus)
    if belief.health is not None:
        reporter.tell_baseline(belief.health.baseline, health.baseline)
    belief.health, belief.gpus = health, gpus
