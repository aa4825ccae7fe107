from __future__ import annotations

import itertools
import uuid
from collections import Counter

import pytest

from gpumesh.mesh.parts import Parts
from gpumesh.model import Admission, Baseline, Gpu, HealthReport, HostFacts, Phase, Verdict
from gpumesh.records import entries
from gpumesh.records.engine import Records
from gpumesh.records.entries import LeaseWord

HOST = str(uuid.UUID(int=1))
GPUS = tuple(Gpu(f"GPU-{index}", index, "RTX 4090", verdict=Verdict.HEALTHY) for index in range(2))
REPORT = HealthReport(Verdict.HEALTHY, gpus=GPUS, driver_version="550.1", baseline=Baseline("enforce", "x"))


@pytest.fixture
def records() -> Records:
    records = Records(host_id=HOST, epoch=1)
    records.publish(entries.HOST, entries.encode_host(HostFacts("host-1", "boot"))[0])
    records.publish(entries.SHARING, entries.encode_sharing(Admission.CORDONED, "fan"))
    records.publish(entries.LEASE, entries.encode_lease(LeaseWord(Phase.SETTLED, is_isolated=False)))
    records.publish(entries.HEALTH, entries.encode_health(REPORT, 2))
    records.publish(entries.BASELINE, entries.encode_baseline(Baseline("enforce", "x")))
    for gpu in GPUS:
        records.publish(entries.GPU_PREFIX + gpu.uuid, entries.encode_gpu(gpu))
    return records


def health_of(parts: Parts) -> HealthReport | None:
    # Through a function, so that the type checker does not hold an earlier assertion for still true.
    return parts.health


def read(parts: Parts, records: Records, names: list[str]) -> Counter[str]:
    counters: Counter[str] = Counter()
    for name in names:
        parts.read(records, HOST, name, counters)
    return counters


def test_health_shows_only_when_all_has_arrived_in_whatever_order(records: Records) -> None:
    names = list(records.entries(HOST))
    assert len(names) == 7
    for order in itertools.islice(itertools.permutations(names), 0, None, 97):
        parts = Parts(1)
        read(parts, records, list(order[:-1]))
        assert health_of(parts) is None, f"{order[-1]} is missing"
        read(parts, records, [order[-1]])
        assert parts.health == REPORT
        assert parts.admission is Admission.CORDONED


def test_gpu_that_comes_later_does_not_hide_the_host_meanwhile(records: Records) -> None:
    parts = Parts(1)
    read(parts, records, list(records.entries(HOST)))
    third = Gpu("GPU-2", 2, "RTX 4090", verdict=Verdict.HEALTHY)
    records.publish(entries.HEALTH, {**entries.encode_health(REPORT, 2), "gpus": 3})
    read(parts, records, [entries.HEALTH])
    assert parts.health == REPORT
    records.publish("gpu/GPU-2", entries.encode_gpu(third))
    read(parts, records, ["gpu/GPU-2"])
    assert parts.health is not None
    assert parts.health.gpus == (*GPUS, third)


def test_absurd_entries_are_counted_and_never_make_a_host_fit(records: Records) -> None:
    for name in list(records.entries(HOST)):
        records.publish(name, ["absurd"])
    parts = Parts(1)
    counters = read(parts, records, list(records.entries(HOST)))
    assert counters == {
        f"unreadable/{kind}": count
        for kind, count in (
            ("host", 1),
            ("sharing", 1),
            ("lease", 1),
            ("health", 1),
            ("baseline", 1),
            ("gpu", 2),
        )
    }
    assert parts.health is None
    assert parts.admission is not Admission.OPEN


def test_entry_of_a_newer_version_is_no_fault(records: Records) -> None:
    records.publish("weather", {"sun": True})
    assert read(Parts(1), records, ["weather"]) == {}


def test_withdrawn_gpu_is_gone(records: Records) -> None:
    parts = Parts(1)
    read(parts, records, list(records.entries(HOST)))
    records.withdraw("gpu/GPU-1")
    records.publish(entries.HEALTH, {**entries.encode_health(REPORT, 2), "gpus": 1})
    read(parts, records, ["gpu/GPU-1", entries.HEALTH])
    assert parts.health is not None
    assert parts.health.gpus == GPUS[:1]
