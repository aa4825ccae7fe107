"""The lease of each host as one observer holds it: how long it may still be believed to hold work.

A lease runs from the last evidence of life, on the observer's boot clock. It expires even if membership lags
behind, and it is not renewed by a host that answers pings while its heartbeat stands still: something in it
hangs. A host that was given up and comes back in the same run is shown as cooling down until its owner has
had a say since.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gpumesh.config import LeaseConfig
from gpumesh.lease.brake import Brake
from gpumesh.model import Reachability


class Sighting(NamedTuple):
    """What membership says of a host now."""

    host_id: str
    epoch: int
    reachability: Reachability
    evidence_at: float
    beat: int
    reason: str = ""
    """Why membership believes that, for people; may be empty."""


class Judgement(NamedTuple):
    """The lease applied to a sighting."""

    reachability: Reachability
    reason: str
    is_cooling: bool = False
    """Came back from failed, and its owner has not spoken since."""
    changes_at: float | None = None
    """When time alone will change this judgement; None: only news will."""


def is_alike(one: Judgement, other: Judgement) -> bool:
    """Tell whether two judgements say the same of a host, until when they hold left aside."""
    return (
        one.reachability is other.reachability
        and one.is_cooling == other.is_cooling
        and one.reason == other.reason
    )


@dataclass(slots=True)
class _Lease:
    epoch: int
    beat: int
    evidence_at: float
    """The newest evidence seen in any sighting. Membership counts a member that nobody accuses as evidenced
    by the fleet's silence about it; once accused, it stands as of when that was last seen to hold."""
    rose_at: float
    """When the beat was last heard to rise, or first heard at all."""
    contacted_at: float | None = None
    stalled_at: float | None = None
    """Since when direct contacts have shown a standing beat; None: it beats."""
    was_failed: bool = False
    version_at_failure: int = -1
    back_at: float | None = None


class LeaseTable:
    """Leases by host id; a forgotten host's lease is dropped, so the table is as bounded as the members'."""

    def __init__(self, config: LeaseConfig) -> None:
        self._config = config
        # One more than the silence allowed: contacts are looked at once a heartbeat, so each may be that old.
        self._stall_s = (config.failures + 1) * config.heartbeat_s
        self._leases: dict[str, _Lease] = {}
        self._awake_at: float | None = None
        self.brake = Brake(window_s=config.ttl_s, hold_s=config.ttl_s + config.cooldown_s)

    def handle_awake(self, now: float) -> None:
        """Note that this observer itself had stopped: for one TTL, old evidence proves nothing."""
        self._awake_at = now

    def handle_gap(self, gap_s: float) -> None:
        """Note that this observer stood still for ``gap_s``: no heartbeat could be heard rising meanwhile.

        What waited in its sockets tells old beats, which would otherwise count as standing all that time.
        """
        for lease in self._leases.values():
            lease.rose_at += gap_s
            if lease.stalled_at is not None:
                lease.stalled_at += gap_s

    def handle_contact(self, host_id: str, epoch: int, beat: int, now: float) -> None:
        """Note that the host was in direct contact, at a time when its newest beat was ``beat``."""
        lease = self._lease(host_id, epoch, beat, now)
        if beat > lease.beat or lease.contacted_at is None:
            lease.beat, lease.rose_at, lease.stalled_at = beat, now, None
        elif now - lease.rose_at > self._stall_s:
            lease.stalled_at = lease.stalled_at if lease.stalled_at is not None else lease.rose_at
        lease.contacted_at = now

    def judge(self, sighting: Sighting, lease_version: int, now: float) -> Judgement:
        """Return how the host stands; ``lease_version`` is that of its ``lease`` entry, -1 without."""
        is_known = sighting.host_id in self._leases
        lease = self._lease(sighting.host_id, sighting.epoch, sighting.beat, now)
        judgement = self._judge_life(sighting, lease, now)
        is_failed = judgement.reachability is Reachability.FAILED
        if is_failed and not lease.was_failed:
            # Who was failed when first heard of failed before this observer's time: no part of a burst.
            self.brake.handle_failed(sighting.host_id, now if is_known else -math.inf)
            lease.was_failed, lease.version_at_failure, lease.back_at = True, lease_version, None
        elif lease.was_failed and judgement.reachability is Reachability.ALIVE:
            self.brake.handle_back(sighting.host_id)
            lease.was_failed, lease.back_at = False, now
        elif judgement.reachability is Reachability.LEFT:
            self.brake.handle_back(sighting.host_id)
            lease.was_failed, lease.back_at = False, None
        return self._with_cooldown(judgement, lease, lease_version, now)

    def forget(self, host_id: str) -> None:
        """Drop the lease of a host that was reaped."""
        self._leases.pop(host_id, None)
        self.brake.handle_back(host_id)

    def forget_all_but(self, host_ids: Iterable[str]) -> None:
        """Drop the leases of all hosts that membership no longer lists."""
        for host_id in self._leases.keys() - set(host_ids):
            self.forget(host_id)

    def __len__(self) -> int:
        return len(self._leases)

    def _lease(self, host_id: str, epoch: int, beat: int, now: float) -> _Lease:
        lease = self._leases.get(host_id)
        if lease is None or lease.epoch != epoch:
            # A new run of the host owes nothing to the old one: its own phase says that it restarted.
            if lease is not None:
                self.brake.handle_back(host_id)
            lease = self._leases[host_id] = _Lease(epoch, beat, -math.inf, now)
        return lease

    def _judge_life(self, sighting: Sighting, lease: _Lease, now: float) -> Judgement:
        if sighting.reachability in {Reachability.FAILED, Reachability.LEFT}:
            return Judgement(sighting.reachability, sighting.reason)
        evidence_at = lease.evidence_at = max(lease.evidence_at, sighting.evidence_at)
        if lease.stalled_at is not None:
            evidence_at = min(evidence_at, lease.stalled_at)
        expires_at = evidence_at + self._config.ttl_s
        if now >= expires_at:
            return self._judge_expired(lease, evidence_at, now)
        if lease.stalled_at is not None:
            reason = f"answers, but its heartbeat has stood still for {now - lease.stalled_at:.0f} s"
            return Judgement(Reachability.SUSPECT, reason, changes_at=expires_at)
        return Judgement(sighting.reachability, sighting.reason, changes_at=expires_at)

    def _judge_expired(self, lease: _Lease, evidence_at: float, now: float) -> Judgement:
        if lease.stalled_at is not None:
            reason = f"answers, but its heartbeat has stood still for {now - lease.stalled_at:.0f} s"
            return Judgement(Reachability.FAILED, reason)
        forgiven_until = self._awake_at + self._config.ttl_s if self._awake_at is not None else now
        if now < forgiven_until:
            reason = "not heard since this host itself had stopped"
            return Judgement(Reachability.SUSPECT, reason, changes_at=forgiven_until)
        if not math.isfinite(evidence_at):
            return Judgement(Reachability.FAILED, "never heard, only heard of")
        age_s = now - evidence_at
        return Judgement(Reachability.FAILED, f"its lease expired: no sign of life for {age_s:.0f} s")

    def _with_cooldown(
        self, judgement: Judgement, lease: _Lease, lease_version: int, now: float
    ) -> Judgement:
        if lease.back_at is None:
            return judgement
        ends_at = lease.back_at + self._config.cooldown_s
        if now >= ends_at or lease_version > lease.version_at_failure:
            lease.back_at = None
            return judgement
        times = [ends_at] if judgement.changes_at is None else [ends_at, judgement.changes_at]
        return Judgement(judgement.reachability, judgement.reason, is_cooling=True, changes_at=min(times))
