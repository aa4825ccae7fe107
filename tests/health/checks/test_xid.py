"""What an Xid means for its card: who is told, what takes it out of service, and when it is well again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpumesh.health.devices import XidEvent
from gpumesh.health.xid_lines import KernelLine
from gpumesh.model import Action, HealthReport, Severity, Verdict
from tests.health.builders import UNIX, Course, address, answered, codes, geforce, h100, lost, only, uuid


def line(xid: int, at: float, card: int = 0, rest: str = "pid=77, name=train") -> KernelLine:
    return KernelLine(at, f"NVRM: Xid (PCI:{address(card)[4:-2]}): {xid}, {rest}")


def look_after(course: Course, *lines: KernelLine) -> HealthReport:
    """One look at a healthy card, with these lines new in the kernel's log."""
    course.host = replace(course.host, kernel_lines=lines)
    report = course.look(answered([h100()]))
    course.host = replace(course.host, kernel_lines=())
    return report


@pytest.mark.parametrize(
    ("xid", "code", "verdict", "action"),
    [
        (13, "application", Verdict.HEALTHY, Action.TELL_OWNER),
        (31, "application", Verdict.HEALTHY, Action.TELL_OWNER),
        (43, "application", Verdict.HEALTHY, Action.TELL_OWNER),
        (45, "application", Verdict.HEALTHY, Action.TELL_OWNER),
        (68, "application", Verdict.HEALTHY, Action.TELL_OWNER),
        (63, "note", Verdict.HEALTHY, Action.NONE),
        (94, "contained", Verdict.HEALTHY, Action.TELL_OWNER),
        (119, "reset", Verdict.UNHEALTHY, Action.RESET),
        (48, "hardware", Verdict.UNHEALTHY, Action.RESET),
        (64, "replace", Verdict.UNHEALTHY, Action.RESET),
        (79, "off-the-bus", Verdict.UNHEALTHY, Action.REBOOT),
        (54, "cables", Verdict.DEGRADED, Action.INSPECT),
        (61, "report", Verdict.DEGRADED, Action.INSPECT),
        (4321, "unknown", Verdict.DEGRADED, Action.INSPECT),
    ],
)
def test_an_xid_is_judged_at_once_by_its_class(xid: int, code: str, verdict: Verdict, action: Action) -> None:
    course = Course()
    gpu = look_after(course, line(xid, 90.0)).gpus[0]
    assert codes(gpu) == [f"xid/{code}"]
    assert (gpu.verdict, only(gpu).action, only(gpu).evidence["xid"]) == (verdict, action, xid)


def test_the_owner_is_named_and_the_time() -> None:
    course = Course()
    report = look_after(course, line(31, 90.0, rest="pid=4242, name=train.py, Ch 0000000c"))
    assert only(report.gpus[0]).reason == (
        "Xid 31 (memory page fault) at 2027-01-15 08:01:30 UTC, by train.py (pid 4242)"
    )
    assert UNIX == 1_800_000_000.0


def test_device_plugin_1014_an_applications_fault_is_forgotten_after_an_hour() -> None:
    course = Course(interval_s=60)
    assert codes(look_after(course, line(31, 100.0)).gpus[0]) == ["xid/application"]
    assert course.look_for(answered([h100()]), 3400).gpus[0].findings != ()
    assert course.look_for(answered([h100()]), 600).gpus[0].findings == ()


def test_device_plugin_1014_a_card_that_recovers_is_taken_back() -> None:
    course = Course(interval_s=10)
    look_after(course, line(119, 100.0))
    assert course.look_for(answered([h100()]), 500).gpus[0].verdict is Verdict.UNHEALTHY
    assert course.look_for(answered([h100()]), 300).gpus[0].verdict is Verdict.HEALTHY


def test_a_card_that_still_needs_a_reset_is_not_taken_back() -> None:
    course = Course(interval_s=10)
    look_after(course, line(119, 100.0))
    assert "xid/reset" in codes(course.look_for(answered([h100(recovery_action=1)]), 7200).gpus[0])


def test_nvsentinel_1532_an_old_xid_of_a_card_that_is_well_costs_nothing() -> None:
    course = Course()
    course.now = 90_000.0
    report = look_after(course, line(119, 100.0))
    assert report.gpus[0].findings == ()
    assert [(item.xid, item.num_seen, item.is_settled) for item in course.health.xids()] == [(119, 1, True)]


def test_an_event_of_the_driver_alone_is_enough() -> None:
    course = Course()
    probe = replace(answered([h100()]), xid_events=(XidEvent(address(0), 79),))
    assert codes(course.look(probe).gpus[0]) == ["xid/off-the-bus"]


def test_a_fall_told_by_xid_and_by_the_kernel_is_one_finding_on_the_lost_card() -> None:
    course = Course()
    course.look(answered([h100()]))
    course.host = replace(
        course.host,
        kernel_lines=(
            line(79, course.now),
            KernelLine(course.now, f"NVRM: GPU {address(0)[4:]}: GPU has fallen off the bus."),
        ),
    )
    gpu = course.look(answered([lost(0)])).gpus[0]
    assert sorted(codes(gpu)) == ["inventory/lost", "xid/off-the-bus"]
    assert {finding.action for finding in gpu.findings} == {Action.REBOOT}


def test_nvsentinel_155_a_fall_without_an_xid_takes_the_card_out() -> None:
    course = Course()
    fall = KernelLine(course.now, f"NVRM: GPU {address(0)[4:]}: GPU has fallen off the bus.")
    gpu = look_after(course, fall).gpus[0]
    assert codes(gpu) == ["xid/off-the-bus"]
    assert "xid" not in only(gpu).evidence


def test_xid_154_is_followed_until_it_is_taken_back() -> None:
    course = Course(interval_s=30)
    asks = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    gpu = look_after(course, line(154, course.now, rest=asks)).gpus[0]
    assert (codes(gpu), only(gpu).action) == (["xid/recovery"], Action.REBOOT)
    assert "node reboot" in only(gpu).reason
    back = "GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"
    look_after(course, line(154, course.now, rest=back))
    assert course.look_for(answered([h100()]), 120).gpus[0].findings == ()


def test_an_xid_of_a_card_without_a_name_stands_on_the_host() -> None:
    course = Course()
    report = look_after(course, line(79, 90.0, card=7))
    (finding,) = report.findings
    assert (finding.subject, finding.evidence["xid"]) == ("host", 79)
    assert "00000000:08:00" in finding.reason
    assert report.gpus[0].findings == ()


def test_a_kernel_log_that_cannot_be_read_is_told_and_no_fault() -> None:
    course = Course()
    course.host = replace(course.host, kernel_log_error="/dev/kmsg: Operation not permitted")
    report = course.look(answered([geforce()]))
    (finding,) = report.findings
    assert (finding.check, finding.severity) == ("xid", Severity.INFO)
    assert "Operation not permitted" in finding.reason
    assert report.verdict is Verdict.HEALTHY


def test_the_news_names_the_card() -> None:
    course = Course()
    look_after(course, line(31, 90.0), line(31, 91.0))
    (news,) = course.health.next_xid_news()
    assert (news.uuid, news.record.xid, news.num_new, news.unix) == (uuid(0), 31, 2, UNIX + 91.0)
    assert course.health.next_xid_news() == ()
