from __future__ import annotations

from dataclasses import replace

from gpumesh.model import Action, Verdict
from tests.health.builders import Course, answered, codes, geforce, h100, hung, only


def test_a_slow_driver_without_persistence_mode_is_told_what_to_switch_on() -> None:
    """netdata#14522: six seconds a call without persistence mode."""
    course = Course()
    slow = replace(answered([geforce(0)]), duration_s=3.0)
    assert course.look_for(slow, 55).findings == ()
    report = course.look(slow)
    assert codes(report) == ["probe/slow"]
    assert "persistence mode" in only(report).advice
    assert only(report).action is Action.CONFIGURE
    assert report.verdict is Verdict.HEALTHY


def test_a_slow_driver_with_persistence_mode_is_told_otherwise() -> None:
    report = Course().look_for(replace(answered([h100(0)]), duration_s=3.0), 60)
    assert "gpu.deadline" in only(report).advice


def test_a_slow_start_is_no_finding_and_a_hung_look_no_duration() -> None:
    course = Course()
    course.look(replace(answered([geforce(0)]), duration_s=4.9), times=3)
    assert course.look(answered([geforce(0)])).findings == ()
    assert codes(course.look(replace(hung(), duration_s=99.0), times=30)) == ["driver/hung"]
