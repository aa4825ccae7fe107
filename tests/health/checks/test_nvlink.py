"""NVLinks: what was up and is down, what was never up, and errors by their rate."""

from __future__ import annotations

from typing import Any

import pytest

from gpumesh.config import Config, HealthConfig
from gpumesh.model import HealthReport, Severity
from tests.health.builders import Course, answered, codes, h100, only

UP, DOWN, ABSENT = True, False, None


def test_azhpc_diagnostics_73_links_that_were_up_and_are_down_are_told() -> None:
    course = Course()
    course.look(answered([h100(nvlinks=(UP,) * 6)]))
    broken = answered([h100(nvlinks=(UP, UP, UP, DOWN, UP, DOWN))])
    assert course.look_for(broken, 55).gpus[0].findings == ()
    gpu = course.look(broken).gpus[0]
    assert codes(gpu) == ["nvlink/down"]
    assert only(gpu).severity is Severity.WARNING
    assert only(gpu).reason == "NVLink 3, 5 are down, and up before; 4 are up"
    assert course.look_for(answered([h100(nvlinks=(UP,) * 6)]), 90).gpus[0].findings == ()


@pytest.mark.parametrize(
    "links",
    [
        pytest.param((DOWN,) * 12, id="NVSentinel#1481: an A100 PCIe without its bridge"),
        pytest.param((ABSENT,) * 12, id="DCGM#49: a board without NVLink"),
        pytest.param(((UP,) * 4 + (DOWN,) * 2) * 3, id="azurehpc-health-checks#162: 12 of 18 by design"),
        pytest.param((), id="no links at all"),
        pytest.param(None, id="not supported"),
    ],
)
def test_a_link_that_was_never_up_is_not_down(links: tuple[bool | None, ...] | None) -> None:
    course = Course(interval_s=30)
    assert course.look_for(answered([h100(nvlinks=links)]), 3600).gpus[0].findings == ()


def test_a_link_that_cannot_be_asked_any_more_is_not_down() -> None:
    course = Course()
    course.look(answered([h100(nvlinks=(UP, UP))]))
    assert course.look_for(answered([h100(nvlinks=(UP, ABSENT))]), 600).gpus[0].findings == ()
    assert course.look_for(answered([h100(nvlinks=None)]), 600).gpus[0].findings == ()


def test_gpud_1085_a_card_in_a_fabric_without_its_links_is_told_although_nobody_saw_them_go() -> None:
    cards = [h100(number, fabric_state=3, fabric_status=0, nvlinks=(UP,) * 18) for number in range(3)]
    inactive = h100(3, fabric_state=3, fabric_status=0, nvlinks=(DOWN,) * 18)
    report = Course().look_for(answered([*cards, inactive]), 60)
    assert [codes(gpu) for gpu in report.gpus] == [[], [], [], ["nvlink/fewer"]]
    assert "another NVIDIA H100 80GB HBM3 here has 18" in only(report.gpus[3]).reason


def test_without_a_fabric_cards_need_not_have_the_same_links() -> None:
    """Two of three cards joined by a bridge."""
    cards = [h100(number, nvlinks=(UP,) * 12) for number in range(2)]
    report = Course().look_for(answered([*cards, h100(2, nvlinks=(DOWN,) * 12)]), 600)
    assert [codes(gpu) for gpu in report.gpus] == [[], [], []]


def rising(field: str, per_minute: float, minutes: int, config: Config | None = None) -> list[str]:
    """Feed a counter that rises so many times a minute; return the findings at the end."""
    course = Course(config)
    report: HealthReport = course.health.report
    for look in range(minutes * 12 + 1):
        change: dict[str, Any] = {field: 7 + int(per_minute * look / 12)}
        report = course.look(answered([h100(**change)]))
    return codes(report.gpus[0])


@pytest.mark.parametrize(
    ("field", "least_a_minute", "code"),
    [
        ("nvlink_crc_flit_errors", 6000, "nvlink/crc"),
        ("nvlink_crc_data_errors", 6000, "nvlink/crc"),
        ("nvlink_replay_errors", 1, "nvlink/replays"),
        ("nvlink_recovery_errors", 1, "nvlink/recoveries"),
    ],
)
def test_errors_on_links_are_judged_by_their_rate_as_dcgm_does(
    field: str, least_a_minute: int, code: str
) -> None:
    assert rising(field, least_a_minute * 1.1, 5) == [code]
    assert rising(field, least_a_minute * 0.1, 9) == []


def test_old_errors_of_a_link_are_no_fault() -> None:
    course = Course()
    card = h100(nvlink_crc_flit_errors=123456, nvlink_replay_errors=99, nvlink_recovery_errors=12)
    assert course.look_for(answered([card]), 1800).gpus[0].findings == ()


def test_a_site_bears_as_many_errors_as_it_says() -> None:
    site = Config(health=HealthConfig(nvlink_replays=50, nvlink_crc=1))
    assert rising("nvlink_replay_errors", 30, 5, site) == []
    assert rising("nvlink_crc_data_errors", 90, 5, site) == ["nvlink/crc"]
