"""Processes that hold a card and have ended, or cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpumesh.config import Config, HealthConfig
from gpumesh.health.devices import Probe
from gpumesh.model import Severity, Verdict
from tests.health.builders import Course, answered, busy, codes, geforce, only


def held_by(*states: str | None) -> Probe:
    processes = tuple(
        replace(busy(pid=4000 + number, name="python3"), user="ada", state=state)
        for number, state in enumerate(states)
    )
    return answered([geforce(processes=processes)])


@pytest.mark.parametrize(
    ("state", "code", "severity"),
    [
        pytest.param("X", "leftover/ended", Severity.WARNING, id="VisEdit#5"),
        pytest.param("Z", "leftover/defunct", Severity.WARNING, id="pytorch/examples#137, mxnet#4242"),
        pytest.param("D", "leftover/waiting", Severity.INFO, id="openpai#5528"),
    ],
)
def test_a_process_that_has_ended_or_cannot_is_told_after_ten_minutes(
    state: str, code: str, severity: Severity
) -> None:
    course = Course()
    assert course.look_for(held_by("S", state), 595).gpus[0].findings == ()
    gpu = course.look(held_by("S", state)).gpus[0]
    assert codes(gpu) == [code]
    assert only(gpu).severity is severity
    assert "process 4001 (python3) of ada" in only(gpu).reason
    assert course.look(held_by("S"), 3).gpus[0].verdict is Verdict.HEALTHY


def test_a_process_that_waits_now_and_then_is_at_work() -> None:
    course = Course()
    for _ in range(400):
        course.look(held_by("D"), 5)
        gpu = course.look(held_by("R")).gpus[0]
        assert gpu.findings == ()


@pytest.mark.parametrize("state", ["R", "S", "T", "I", None])
def test_processes_that_live_or_of_which_nothing_is_known_are_left_alone(state: str | None) -> None:
    assert Course(interval_s=30).look_for(held_by(state), 7200).gpus[0].findings == ()


def test_many_leftovers_are_told_up_to_a_bound() -> None:
    gpu = Course().look_for(held_by(*"Z" * 100), 600).gpus[0]
    assert codes(gpu) == ["leftover/defunct"] * 8


def test_a_site_says_how_long_it_waits() -> None:
    course = Course(Config(health=HealthConfig(leftover_after_s=60.0)))
    assert codes(course.look_for(held_by("X"), 60).gpus[0]) == ["leftover/ended"]
