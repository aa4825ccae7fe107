from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from gpumesh.config import LeaseConfig
from gpumesh.mesh.owner import RESTATE_S, Owner
from gpumesh.model import (
    Baseline,
    Finding,
    Gpu,
    HealthReport,
    HostFacts,
    Phase,
    Reachability,
    Severity,
    Verdict,
)
from gpumesh.records import entries
from gpumesh.records.engine import Records

HOST = str(uuid.UUID(int=1))
GPU = Gpu("GPU-0", 0, "RTX 4090", memory_free_bytes=8 << 30, is_busy=False, verdict=Verdict.HEALTHY)
REPORT = HealthReport(Verdict.HEALTHY, gpus=(GPU,), driver_version="550.1")


@pytest.fixture
def records() -> Records:
    return Records(host_id=HOST, epoch=1)


def make(records: Records, *, has_seeds: bool = False, is_first_run: bool = True) -> Owner:
    return Owner(
        records=records,
        facts=HostFacts("host-1", "boot"),
        config=LeaseConfig(),
        has_seeds=has_seeds,
        is_first_run=is_first_run,
        now=100.0,
    )


def hot(celsius: int) -> HealthReport:
    finding = Finding("temperature", "gpu/GPU-0", Severity.WARNING, f"{celsius} °C", since=5.0)
    return replace(REPORT, gpus=(replace(GPU, verdict=Verdict.DEGRADED, findings=(finding,)),))


def is_isolated(owner: Owner) -> bool:
    # Through a function, so that the type checker does not hold an earlier assertion for still true.
    return owner.is_isolated


def version(records: Records, name: str) -> int:
    return records.entries(HOST)[name].version


def test_everything_but_health_is_said_from_the_start(records: Records) -> None:
    make(records)
    assert set(records.entries(HOST)) == {"host", "sharing", "lease"}


def test_settles_once_health_is_known_if_nobody_is_expected(records: Records) -> None:
    owner = make(records)
    owner.handle_time(None, 101.0)
    assert owner.phase is Phase.JOINING
    owner.set_health(REPORT, 102.0)
    owner.handle_time(None, 102.0)
    assert records.value(HOST, "lease")["phase"] == "settled"


def test_waits_for_a_peer_if_there_are_seeds(records: Records) -> None:
    owner = make(records, has_seeds=True)
    owner.set_health(REPORT, 102.0)
    owner.handle_time(None, 103.0)
    assert owner.phase is Phase.JOINING
    owner.handle_time(103.5, 104.0)
    assert records.value(HOST, "lease")["phase"] == "settled"


def test_words_alone_are_said_again_once_a_while_substance_at_once(records: Records) -> None:
    owner = make(records)
    owner.set_health(hot(91), 100.0)
    first = version(records, "gpu/GPU-0")
    for second in range(1, 50):
        owner.set_health(hot(91 + second % 3), 100.0 + second)
    assert version(records, "gpu/GPU-0") == first
    owner.set_health(hot(92), 100.0 + RESTATE_S)
    assert version(records, "gpu/GPU-0") > first
    busy = replace(REPORT, gpus=(replace(GPU, is_busy=True),))
    owner.set_health(busy, 101.0 + RESTATE_S)
    assert records.value(HOST, "gpu/GPU-0")["busy"] is True


def test_another_finding_of_one_check_is_substance(records: Records) -> None:
    owner = make(records)
    found = Finding("driver", "host", Severity.CRITICAL, "it ended", since=5.0, evidence={"code": "ended"})
    owner.set_health(replace(REPORT, findings=(found,)), 100.0)
    released = replace(found, reason="it was let go of", evidence={"code": "released"})
    owner.set_health(replace(REPORT, findings=(released,)), 101.0)
    [said] = records.value(HOST, "health")["findings"]
    assert said["evidence"]["code"] == "released"


def test_a_baseline_that_was_withdrawn_is_said_again_at_once(records: Records) -> None:
    owner = make(records)
    baseline = Baseline("warn", "built-in", ())
    for now, held in ((100.0, baseline), (101.0, None), (102.0, baseline)):
        owner.set_health(replace(REPORT, baseline=held), now)
        assert records.holds(entries.BASELINE) is (held is not None)


def test_gpu_no_longer_reported_is_withdrawn(records: Records) -> None:
    owner = make(records)
    owner.set_health(REPORT, 100.0)
    owner.set_health(replace(REPORT, gpus=()), 105.0)
    assert records.value(HOST, "gpu/GPU-0") is None
    owner.set_health(REPORT, 110.0)
    assert records.value(HOST, "gpu/GPU-0") is not None


def test_isolated_after_three_silent_beats_only_if_company_is_due(records: Records) -> None:
    alone = make(records)
    alone.handle_time(None, 1000.0)
    assert not alone.is_isolated
    owner = make(records, has_seeds=True)
    owner.handle_time(None, 115.0)
    assert not is_isolated(owner)
    due_at = owner.next_deadline(None)
    assert due_at is not None
    owner.handle_time(None, due_at)
    assert is_isolated(owner)
    assert records.value(HOST, "lease")["isolated"] is True
    owner.handle_time(116.0, 116.0)
    assert not is_isolated(owner)


def test_own_sleep_is_not_silence_of_others(records: Records) -> None:
    owner = make(records, has_seeds=True)
    owner.handle_awake(5000.0)
    owner.handle_time(100.0, 5001.0)
    assert not is_isolated(owner)


def test_last_goodbye_leaves_a_host_alone_on_purpose(records: Records) -> None:
    owner = make(records)
    owner.handle_members(1, 0)
    owner.handle_time(100.0, 200.0)
    assert is_isolated(owner)
    owner.handle_members(1, 1)
    owner.handle_time(100.0, 201.0)
    assert not is_isolated(owner)
    owner.handle_members(0, 0)
    owner.handle_time(100.0, 202.0)
    assert not is_isolated(owner)


def test_being_held_failed_owes_a_cooldown_being_suspected_none(records: Records) -> None:
    owner = make(records)
    owner.set_health(REPORT, 100.0)
    owner.handle_time(None, 100.0)
    owner.handle_accused(Reachability.SUSPECT, 101.0)
    assert records.value(HOST, "lease")["phase"] == "settled"
    owner.handle_accused(Reachability.FAILED, 102.0)
    assert records.value(HOST, "lease")["phase"] == "cooldown"
    owner.handle_time(None, 162.0)
    assert records.value(HOST, "lease")["phase"] == "settled"


def test_unpublishable_entry_is_counted_and_the_rest_goes_out(records: Records) -> None:
    owner = make(records)
    absurd = replace(GPU, uuid="GPU-1", memory_bytes=2**70, index=-4, capability="\ud800")
    owner.set_health(replace(REPORT, gpus=(replace(GPU, uuid="not a name"), absurd, GPU)), 100.0)
    assert owner.counters["unpublished/entry_name"] == 1
    assert records.value(HOST, "health")["gpus"] == 2
    assert records.value(HOST, "gpu/GPU-1")["memory"] is None, "absurd is unknown, never a number"
