"""The owner's side: what this host says of itself, published only when it changed in a way that matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from gpumesh.config import LeaseConfig
from gpumesh.errors import RejectedError
from gpumesh.lease.condition import condition
from gpumesh.lease.phase import OwnPhase, Trigger
from gpumesh.model import (
    Admission,
    Baseline,
    Finding,
    Gpu,
    HealthReport,
    HostFacts,
    HostState,
    Phase,
    Reachability,
)
from gpumesh.records import entries
from gpumesh.records.engine import Records
from gpumesh.records.entries import LeaseWord
from gpumesh.records.values import Plain

RESTATE_S: Final = 60.0
"""Least time between two publications of an entry in which only words and numbers of findings changed."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What was published under a name, as far as it matters, and when."""

    substance: object
    at: float


class Owner:
    """This host's own record: facts, health, admission, and its place after a start or a recovery."""

    def __init__(
        self,
        *,
        records: Records,
        facts: HostFacts,
        config: LeaseConfig,
        has_seeds: bool,
        is_first_run: bool,
        now: float,
    ) -> None:
        self._records = records
        self._silence_s = config.failures * config.heartbeat_s
        self._phase = OwnPhase(is_first_run=is_first_run, cooldown_s=config.cooldown_s, now=now)
        self._said: dict[str, _Said] = {}
        self._gpu_names: set[str] = set()
        self._condition: HostState | None = None
        self._listening_at = now
        self._lease_word: LeaseWord | None = None
        self._is_isolated = False
        self._has_seeds = has_seeds
        self._has_met = False
        self._was_left = False
        self.counters: Counter[str] = Counter()
        self.set_facts(facts)
        self._publish(entries.SHARING, entries.encode_sharing(Admission.OPEN, ""))
        self._publish_lease()

    @property
    def phase(self) -> Phase:
        """Where it stands after its start or a recovery."""
        return self._phase.phase

    @property
    def is_isolated(self) -> bool:
        """Whether it hears nobody although somebody should be there."""
        return self._is_isolated

    def handle_seeds(self, *, has_others: bool) -> None:
        """Note whether the seeds, resolved, are of others, so that somebody should answer."""
        self._has_seeds = has_others

    def handle_members(self, num_others: int, num_left: int) -> None:
        """Take in how many are known, and how many of them said goodbye: the others should be heard."""
        if num_others:
            self._has_met = True
            self._was_left = num_left == num_others

    def handle_accused(self, held: Reachability, now: float) -> None:
        """Note that others held this host suspect or failed; after failed, a cooldown is owed."""
        if held is Reachability.FAILED:
            self._phase.handle(Trigger.ACCUSED, now)
            self._publish_lease()

    def handle_remembered(self, now: float) -> None:
        """Note that the fleet knew an earlier run of this host, which its own state did not."""
        self._phase.handle(Trigger.RESTARTED, now)
        self._publish_lease()

    def handle_awake(self, now: float) -> None:
        """Note that this host itself had stopped: silence is counted from now."""
        self._listening_at = now

    def handle_time(self, last_heard_at: float | None, now: float) -> None:
        """Move on with time: end a cooldown, settle, notice isolation or its end."""
        self._phase.handle_timer(now)
        is_met = last_heard_at is not None or not self._has_seeds
        if self.phase is Phase.JOINING and self._condition is not None and is_met:
            self._phase.handle(Trigger.INTRODUCED, now)
        self._is_isolated = self._is_company_due and now > self._isolated_at(last_heard_at)
        self._publish_lease()

    def next_deadline(self, last_heard_at: float | None) -> float | None:
        """Return when the passing of time alone changes what this host says of itself."""
        cooled_at = self._phase.next_deadline()
        if self._is_isolated or not self._is_company_due:
            return cooled_at
        # Just after the limit: silence must have lasted longer than it.
        isolated_at = self._isolated_at(last_heard_at) + 0.001
        return isolated_at if cooled_at is None else min(cooled_at, isolated_at)

    def set_facts(self, facts: HostFacts) -> None:
        """Publish what this host is; labels beyond the bound of an entry are left out and counted."""
        value, num_cut = entries.encode_host(facts)
        self.counters["labels_cut"] += num_cut
        self._publish(entries.HOST, value)

    def set_admission(self, admission: Admission, reason: str) -> None:
        """Publish what the owner says about new work."""
        self._publish(entries.SHARING, entries.encode_sharing(admission, reason))

    def set_health(self, report: HealthReport, now: float) -> None:
        """Publish what the health layer concluded; coming back from unhealthy starts a cooldown."""
        num_gpus = self._publish_gpus(report.gpus, now)
        head = (report.verdict, report.driver_version, report.cuda_version, num_gpus)
        substance = (head, _substance(report.findings))
        self._restate(entries.HEALTH, lambda: entries.encode_health(report, num_gpus), substance, now)
        self._publish_baseline(report.baseline, now)
        before, (self._condition, _) = self._condition, condition(report)
        if before is HostState.UNHEALTHY and self._condition is not HostState.UNHEALTHY:
            self._phase.handle(Trigger.RECOVERED, now)
            self._publish_lease()

    @property
    def _is_company_due(self) -> bool:
        # Whose last peer said goodbye is alone on purpose, not cut off.
        return (self._has_seeds or self._has_met) and not self._was_left

    def _isolated_at(self, last_heard_at: float | None) -> float:
        heard_at = self._listening_at if last_heard_at is None else max(last_heard_at, self._listening_at)
        return heard_at + self._silence_s

    def _publish_baseline(self, baseline: Baseline | None, now: float) -> None:
        if baseline is not None:
            self._restate(entries.BASELINE, lambda: entries.encode_baseline(baseline), baseline, now)
        else:
            self._records.withdraw(entries.BASELINE)
            self._said.pop(entries.BASELINE, None)

    def _publish_gpus(self, gpus: tuple[Gpu, ...], now: float) -> int:
        """Publish the cards, withdraw those no longer there; return how many stand in the record."""
        names = set()
        self.counters["gpus_cut"] += max(0, len(gpus) - entries.MAX_GPUS)
        for gpu in gpus[: entries.MAX_GPUS]:
            name = entries.GPU_PREFIX + gpu.uuid
            names.add(name)
            # Everything but the findings' words and numbers.
            free = (gpu.memory_bytes, gpu.memory_free_bytes, gpu.is_busy)
            known = (gpu.index, gpu.model, gpu.capability, gpu.pci_bus_id, gpu.verdict)
            substance = (free, known, _substance(gpu.findings))
            self._restate(name, partial(entries.encode_gpu, gpu), substance, now)
        for name in sorted(self._gpu_names - names):
            self._records.withdraw(name)
            self._said.pop(name, None)
        self._gpu_names = names
        return sum(self._records.holds(name) for name in names)

    def _restate(self, name: str, encode: Callable[[], Plain], substance: object, now: float) -> None:
        """Publish at once what changed in substance, and what changed in words once a while.

        A temperature in a finding's sentence moves at each look; telling the fleet each time would make its
        gossip grow with its size.
        """
        said = self._said.get(name)
        if said is not None and said.substance == substance and now - said.at < RESTATE_S:
            return
        value = encode()
        self._said[name] = _Said(substance, now)
        self._publish(name, value)

    def _publish_lease(self) -> None:
        word = LeaseWord(self._phase.phase, self._is_isolated, self._phase.reason)
        if word == self._lease_word:
            return
        self._lease_word = word
        self._publish(entries.LEASE, entries.encode_lease(word))

    def _publish(self, name: str, value: Plain) -> None:
        try:
            self._records.publish(name, value)
        except RejectedError as error:
            self.counters[f"unpublished/{error.reason}"] += 1


def _substance(findings: tuple[Finding, ...]) -> object:
    # The code tells what a check found, and peers judge by it: a driver that was let go of is no dead one.
    return tuple(
        (
            item.check,
            item.evidence.get("code"),
            item.severity,
            item.action,
            item.since,
            item.silenced_until,
        )
        for item in findings
    )
