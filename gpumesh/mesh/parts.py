"""One host's record as model values: each entry parsed when it changes, the whole taken when complete."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from gpumesh.model import Admission, Baseline, Gpu, HealthReport, HostFacts, Phase
from gpumesh.records import entries
from gpumesh.records.engine import Records
from gpumesh.records.entries import HostHealth, LeaseWord

_UNSAID = LeaseWord(Phase.JOINING, is_isolated=False)
_REQUIRED = (entries.HOST, entries.SHARING, entries.LEASE)
"""What must be known of a host beside its health. At most eight of them: arrivals are kept as bits."""
_ALL_ARRIVED = (1 << len(_REQUIRED)) - 1
_LAST = 1 << 16


class Parts:
    """What one host says of itself, of the run of it that is held."""

    __slots__ = (
        "_arrived",
        "_gpus",
        "_head",
        "_report",
        "admission",
        "admission_reason",
        "baseline",
        "epoch",
        "facts",
        "lease",
        "lease_version",
        "stamp",
    )

    def __init__(self, epoch: int, facts: HostFacts | None = None) -> None:
        self.epoch = epoch
        self.facts = facts
        """Of the run before until those of this run arrive: the host keeps its name meanwhile."""
        self.stamp = 0
        """Differs whenever anything here changed, also from that of an earlier run."""
        self.admission = Admission.OPEN
        self.admission_reason = ""
        self.lease = _UNSAID
        self.lease_version = -1
        self.baseline: Baseline | None = None
        self._arrived = 0
        self._report: HealthReport | None = None
        self._head: HostHealth | None = None
        self._gpus: dict[str, Gpu] = {}

    @property
    def health(self) -> HealthReport | None:
        """The last complete report; None until all that must be known of the host has arrived.

        Entries arrive in any order: a host must not be taken for open before its owner's word is here.
        """
        return self._report if self._arrived == _ALL_ARRIVED else None

    def read(self, records: Records, host_id: str, name: str, counters: Counter[str]) -> None:
        """Take in an entry as it stands in the records now; an absurd one is absent, and counted."""
        entry = records.entries(host_id).get(name)
        value = entry.value if entry is not None else None
        kind, _, uuid = name.partition("/")
        is_read = True
        if kind + "/" == entries.GPU_PREFIX:
            is_read = self._read_gpu(uuid, value)
        elif kind == entries.HEALTH:
            self._head = entries.parse_health(value)
            is_read = self._head is not None
        elif kind == entries.BASELINE:
            self.baseline = entries.parse_baseline(value)
            is_read = self.baseline is not None
        elif kind == entries.HOST:
            facts = entries.parse_host(value)
            self.facts = facts or self.facts
            is_read = facts is not None
        elif kind == entries.SHARING:
            is_read = self._read_sharing(value)
        elif kind == entries.LEASE:
            word = entries.parse_lease(value)
            self.lease = word or _UNSAID
            self.lease_version = entry.version if entry is not None else -1
            is_read = word is not None
        if is_read and value is not None and kind in _REQUIRED:
            self._arrived |= 1 << _REQUIRED.index(kind)
        elif not is_read and value is not None:
            counters[f"unreadable/{kind}"] += 1
        self._assemble()

    def _read_gpu(self, uuid: str, value: object) -> bool:
        gpu = entries.parse_gpu(uuid, value) if value is not None else None
        self._gpus.pop(uuid, None)
        if gpu is not None:
            self._gpus[uuid] = gpu
        return gpu is not None

    def _read_sharing(self, value: object) -> bool:
        sharing = entries.parse_sharing(value)
        # Unreadable is not open: its owner may be using the cards.
        unsaid = (Admission.OPEN, "") if value is None else (Admission.CORDONED, "its word cannot be read")
        self.admission, self.admission_reason = sharing or unsaid
        return sharing is not None

    def _assemble(self) -> None:
        if self._head is None or len(self._gpus) != self._head.num_gpus:
            return
        if self._head.has_baseline and self.baseline is None:
            return
        gpus = tuple(sorted(self._gpus.values(), key=_driver_order))
        self._report = replace(self._head.report, gpus=gpus, baseline=self.baseline)


def _driver_order(gpu: Gpu) -> tuple[int, str]:
    return (gpu.index if gpu.index is not None else _LAST, gpu.uuid)
