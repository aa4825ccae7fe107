from __future__ import annotations

import json
from typing import Any

import pytest

from gpumesh.errors import RequestError
from gpumesh.health.engine import Health
from gpumesh.health.silences import MAX_FOR_S, MAX_SILENCES, Silence, Silences
from gpumesh.model import Finding, Gpu, Severity, Verdict
from tests.health.builders import UNIX, Course, absent, answered, codes, geforce, h100, lost, only, uuid

HOUR = 3600.0


def silenced(check: str, subject: str = "", for_s: float = HOUR, now: float = 100.0) -> Silences:
    silences = Silences()
    silences.add(check, subject, for_s, reason="new riser", now=now, unix=UNIX + now)
    return silences


def course_with(silences: Silences) -> Course:
    course = Course()
    course.health = Health(course.health._config, silences=silences)
    return course


def pending(gpu: Gpu) -> Finding:
    assert codes(gpu) == ["row-remap/pending"]
    return only(gpu)


def test_a_silenced_finding_does_not_count_and_is_shown_with_its_evidence() -> None:
    gpu = course_with(silenced("row-remap")).look(answered([h100(remap_pending=True)])).gpus[0]
    finding = pending(gpu)
    assert gpu.verdict is Verdict.HEALTHY
    assert finding.silenced_until == UNIX + 100.0 + HOUR
    assert finding.severity is Severity.WARNING
    assert finding.evidence["silenced_because"] == "new riser"
    assert finding.evidence["code"] == "pending"


def test_a_silence_ends_by_itself_and_the_finding_counts_again_with_its_since() -> None:
    course = course_with(silenced("row-remap", for_s=60))
    sick = answered([h100(remap_pending=True)])
    first = course.look(sick).gpus[0]
    assert course.look_for(sick, 50).gpus[0].verdict is Verdict.HEALTHY
    gpu = course.look(sick, times=2).gpus[0]
    assert gpu.verdict is Verdict.DEGRADED
    assert pending(gpu).silenced_until is None
    assert pending(gpu).since == pending(first).since


def test_a_finding_can_be_silenced_alone_and_on_one_card() -> None:
    silences = silenced("row-remap/pending", f"gpu/{uuid(0)}")
    report = course_with(silences).look(
        answered([h100(0, remap_pending=True, remap_failed=True), h100(1, remap_pending=True)])
    )
    assert [gpu.verdict for gpu in report.gpus] == [Verdict.UNHEALTHY, Verdict.DEGRADED]
    # What counts comes first.
    assert codes(report.gpus[0]) == ["row-remap/failed", "row-remap/pending"]
    assert [finding.silenced_until is None for finding in report.gpus[0].findings] == [True, False]


def test_a_finding_about_the_host_is_silenced_alike() -> None:
    report = course_with(silenced("driver", "host")).look(absent(9))
    assert report.findings[0].silenced_until is not None
    assert report.verdict is Verdict.HEALTHY


def test_a_silence_makes_nothing_healthy_that_is_not_known() -> None:
    course = course_with(silenced("inventory"))
    course.look(answered([geforce(0), geforce(1)]))
    report = course.look(answered([geforce(0), lost(1)]))
    assert report.gpus[1].findings[0].silenced_until is not None
    assert report.gpus[1].verdict is Verdict.UNKNOWN


def test_a_silence_can_be_ended_before_its_time() -> None:
    silences = silenced("row-remap")
    course = course_with(silences)
    sick = answered([h100(remap_pending=True)])
    course.look(sick)
    assert silences.end("row-remap", "", now=course.now)
    assert not silences.end("row-remap", "", now=course.now)
    assert course.look(sick).gpus[0].verdict is Verdict.DEGRADED


def test_a_silence_of_the_same_check_and_subject_replaces_the_one_before() -> None:
    silences = silenced("pcie", for_s=2 * HOUR)
    silences.add("pcie", "", 60, reason="shorter", now=100.0, unix=UNIX)
    assert [item.for_s for item in silences.standing(100.0)] == [60]


@pytest.mark.parametrize("check", ["pci", "pcie/lanes", "", "driver\n"])
def test_an_unknown_check_is_refused_with_those_there_are(check: str) -> None:
    with pytest.raises(RequestError, match=r"there are: driver|pcie has no such finding; it has: width"):
        silenced(check)


@pytest.mark.parametrize("for_s", [0.0, -1.0, MAX_FOR_S + 1, float("nan")])
def test_a_silence_without_a_sensible_end_is_refused(for_s: float) -> None:
    with pytest.raises(RequestError, match="30 days"):
        silenced("pcie", for_s=for_s)


def test_the_table_of_silences_is_bounded() -> None:
    silences = Silences()
    for number in range(MAX_SILENCES):
        silences.add("pcie", f"gpu/{uuid(number)}", HOUR, reason="x", now=0.0, unix=UNIX)
    with pytest.raises(RequestError, match="silences stand already"):
        silences.add("ecc", "", HOUR, reason="x", now=0.0, unix=UNIX)


def restored(document: Any, unix: float) -> tuple[Silence, ...]:
    silences = Silences()
    silences.restore(document, now=5.0, unix=unix)
    return silences.standing(5.0)


def test_what_is_left_of_a_silence_survives_a_restart() -> None:
    kept = json.loads(json.dumps(silenced("pcie").to_json(100.0)))
    silences = Silences()
    silences.restore(kept, now=5.0, unix=UNIX + 100.0 + HOUR - 60)
    assert len(silences.standing(64.0)) == 1
    assert silences.standing(66.0) == ()
    assert restored(kept, UNIX + 100.0 + HOUR + 1) == ()


def test_a_wall_clock_set_back_does_not_lengthen_a_silence() -> None:
    kept = silenced("pcie", for_s=60).to_json(100.0)
    silences = Silences()
    silences.restore(kept, now=5.0, unix=UNIX - 10 * HOUR)
    assert silences.standing(66.0) == ()


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"silences": 3},
        {"silences": [None, {}, {"check": "pcie"}]},
        {"silences": [{"check": "pcie", "subject": "", "reason": "", "for_s": 1e9, "until": 2e9}]},
        {"silences": [{"check": "pcie", "subject": "", "reason": "", "for_s": "1", "until": 2e9}]},
        {"silences": [{"check": "pcie", "subject": "all", "reason": "", "for_s": 60, "until": 2e9}]},
        {"silences": [{"check": "x" * 201, "subject": "", "reason": "", "for_s": 60, "until": 2e9}]},
    ],
)
def test_a_kept_file_that_makes_no_sense_silences_nothing(document: Any) -> None:
    assert restored(document, UNIX) == ()


def test_a_silence_counts_at_once_without_another_look_and_so_does_its_end() -> None:
    silences = Silences()
    course = course_with(silences)
    assert course.look(answered([h100(remap_pending=True)])).gpus[0].verdict is Verdict.DEGRADED
    silences.add("row-remap", "", HOUR, reason="reset tonight", now=101.0, unix=UNIX + 101.0)
    report = course.health.handle_silences(101.0)
    assert report.gpus[0].verdict is Verdict.HEALTHY
    assert pending(report.gpus[0]).silenced_until == UNIX + 101.0 + HOUR
    assert course.health.handle_silences(101.5) is report
    silences.end("row-remap", "", now=102.0)
    assert course.health.handle_silences(102.0).gpus[0].verdict is Verdict.DEGRADED


def test_a_silence_before_the_first_look_changes_nothing() -> None:
    health = course_with(silenced("row-remap")).health
    assert health.handle_silences(101.0) is health.report


def test_a_silence_on_a_host_whose_driver_is_let_go_of_leaves_its_cards_unknown() -> None:
    silences = Silences()
    course = course_with(silences)
    course.look(answered([h100(remap_failed=True)]))
    released = course.health.handle_release("let go of", UNIX)
    silences.add("row-remap", "", HOUR, reason="replaced tonight", now=101.0, unix=UNIX + 101.0)
    report = course.health.handle_silences(101.0)
    assert released.gpus[0].verdict is Verdict.UNHEALTHY
    assert report.gpus[0].verdict is Verdict.UNKNOWN
    assert [item.reason for item in report.findings] == ["let go of"]
