"""Hardware slowdown and the power brake, counted by minutes, and the one cause that is told for both."""

from __future__ import annotations

import pytest

from tests.health.builders import Course, answered, codes, geforce, only


@pytest.mark.parametrize(
    ("reasons", "code", "words"),
    [
        (0x08, "hw-slowdown/unexplained", "hardware slowdown"),
        (0x48, "hw-slowdown/thermal", "hardware thermal slowdown"),
        (0x88, "power-brake/slowdown", "power brake"),
        (0xC8, "hw-slowdown/thermal", "hardware thermal slowdown"),
        (0x80, "power-brake/slowdown", "power brake"),
    ],
)
def test_slowdown_counts_minutes_six_of_ten_by_the_reason_that_says_most(
    reasons: int, code: str, words: str
) -> None:
    course = Course(interval_s=60)
    slow, fine = answered([geforce(clocks_event_reasons=reasons)]), answered([geforce()])
    for _ in range(5):
        assert course.look(slow).gpus[0].findings == ()
    assert course.look(fine, times=3).gpus[0].findings == ()
    gpu = course.look(slow).gpus[0]
    assert codes(gpu) == [code]
    assert only(gpu).reason == f"{words} in 6 of 10 parts of the last 10 min"
    assert codes(course.look(fine, times=2).gpus[0]) == [code]
    assert course.look(fine, times=10).gpus[0].findings == ()


@pytest.mark.parametrize("reasons", [0x08, 0x48, 0x88])
def test_one_burst_of_slowdown_is_one_minute_however_often_it_is_looked_at(reasons: int) -> None:
    course = Course(interval_s=0.5)
    slow = answered([geforce(clocks_event_reasons=reasons)])
    assert course.look(slow, times=300).gpus[0].findings == ()


def test_minutes_of_one_cause_do_not_count_for_another() -> None:
    course = Course(interval_s=60)
    for reasons in (0x48, 0x88, 0x08) * 3:
        assert course.look(answered([geforce(clocks_event_reasons=reasons)])).gpus[0].findings == ()


def test_a_card_that_tells_no_reasons_is_not_judged() -> None:
    course = Course(interval_s=60)
    silent = answered([geforce(clocks_event_reasons=None)])
    assert course.look(silent, times=20).gpus[0].findings == ()
