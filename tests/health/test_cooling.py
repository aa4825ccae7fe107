from __future__ import annotations

from gpumesh.config import Config, LeaseConfig
from gpumesh.lease.condition import condition
from gpumesh.model import HostState, Severity, Verdict
from tests.health.builders import UNIX, Course, answered, codes, geforce, lost

BOTH = answered([geforce(0), geforce(1)])
ONE_LOST = answered([geforce(0), lost(1)])


def recovered(course: Course) -> None:
    """Lose the second card and have it back, up to the look at which its finding goes."""
    course.look(BOTH)
    assert course.look(ONE_LOST).gpus[1].verdict is Verdict.UNHEALTHY
    course.look(BOTH, times=2)


def test_a_card_that_recovered_beside_others_proves_itself_for_the_cooldown() -> None:
    course = Course()
    recovered(course)
    report = course.look(BOTH)
    began_at = course.now - 5.0
    well, back = report.gpus
    assert (well.verdict, well.findings) == (Verdict.HEALTHY, ())
    assert (back.verdict, codes(back)) == (Verdict.DEGRADED, ["cooldown/recovered"])
    (finding,) = back.findings
    assert (finding.severity, finding.since) == (Severity.WARNING, UNIX + began_at)
    assert "60 s" in finding.reason
    assert condition(report)[0] is HostState.DEGRADED, "the other card stays in service"
    assert course.look(BOTH, times=11) is report, "nothing is told anew meanwhile"
    assert [gpu.verdict for gpu in course.look(BOTH).gpus] == [Verdict.HEALTHY] * 2


def test_a_card_that_falls_ill_while_it_cools_down_begins_again() -> None:
    course = Course()
    recovered(course)
    course.look(BOTH, times=6)
    course.look(ONE_LOST)
    course.look(BOTH, times=3)
    assert course.look(BOTH, times=11).gpus[1].verdict is Verdict.DEGRADED
    assert course.look(BOTH).gpus[1].verdict is Verdict.HEALTHY


def test_the_cooldown_is_the_sites_to_say() -> None:
    course = Course(Config(lease=LeaseConfig(cooldown_s=10.0)))
    recovered(course)
    assert course.look(BOTH, times=2).gpus[1].verdict is Verdict.DEGRADED
    assert course.look(BOTH).gpus[1].verdict is Verdict.HEALTHY


def test_a_hosts_only_card_is_held_by_the_hosts_own_cooldown() -> None:
    course = Course()
    course.look(answered([geforce(0)]))
    course.look(answered([lost(0)]))
    report = course.look(answered([geforce(0)]), times=3)
    assert report.gpus[0].verdict is Verdict.HEALTHY


def test_a_silence_is_no_recovery() -> None:
    course = Course()
    course.look(BOTH)
    course.look(ONE_LOST)
    course.health._silences.add("inventory", "", 600.0, reason="known", now=course.now, unix=UNIX)
    report = course.look(ONE_LOST, times=2)
    assert codes(report.gpus[1]) == ["inventory/lost"]
