from __future__ import annotations

from typing import Any

import pytest

from gpumesh.health.devices import MigInstance
from gpumesh.model import Severity, Verdict
from tests.health.builders import Course, answered, codes, geforce, h100, only

SLICE = MigInstance("MIG-1", 1, 0, "1g.10gb")


def seen_for(seconds: float, **changes: Any) -> list[str]:
    return codes(Course().look_for(answered([h100(**changes)]), seconds).gpus[0])


def test_mig_without_an_instance_is_told_after_a_minute() -> None:
    course = Course()
    empty = answered([h100(mig_enabled=True, mig_instances=())])
    assert course.look_for(empty, 55).gpus[0].findings == ()
    gpu = course.look(empty).gpus[0]
    assert codes(gpu) == ["mig/no-instances"]
    assert gpu.verdict is Verdict.DEGRADED


@pytest.mark.parametrize(
    "changes",
    [
        {"mig_enabled": True, "mig_instances": (SLICE,), "mig_enabled_pending": True},
        {"mig_enabled": True, "mig_instances": None},
        {"mig_enabled": False, "mig_instances": None, "mig_enabled_pending": False},
        {"mig_enabled": None},
    ],
)
def test_mig_with_instances_off_or_not_known_is_no_fault(changes: dict[str, Any]) -> None:
    assert seen_for(3600, **changes) == []


def test_a_mig_mode_that_waits_for_a_reset_is_told_and_harms_nothing() -> None:
    gpu = Course().look_for(answered([h100(mig_enabled=False, mig_enabled_pending=True)]), 60).gpus[0]
    assert codes(gpu) == ["mig/pending"]
    assert only(gpu).severity is Severity.INFO
    assert "switched on" in only(gpu).reason
    assert gpu.verdict is Verdict.HEALTHY


@pytest.mark.parametrize(("state", "words"), [(1, "has not begun"), (2, "goes on")])
def test_a_card_that_waits_for_its_fabric_is_unfit_after_five_minutes(state: int, words: str) -> None:
    course = Course()
    waiting = answered([h100(fabric_state=state, fabric_status=0)])
    assert course.look_for(waiting, 295).gpus[0].verdict is Verdict.HEALTHY
    gpu = course.look(waiting).gpus[0]
    assert codes(gpu) == ["fabric/not-ready"]
    assert words in only(gpu).reason
    assert gpu.verdict is Verdict.UNHEALTHY
    ready = answered([h100(fabric_state=3, fabric_status=0)])
    assert course.look_for(ready, 30).gpus[0].verdict is Verdict.HEALTHY


def test_a_failed_registration_is_told_at_once_with_its_code() -> None:
    gpu = Course().look(answered([h100(fabric_state=3, fabric_status=999)])).gpus[0]
    assert codes(gpu) == ["fabric/failed"]
    assert "NVML 999" in only(gpu).reason


def test_cards_without_a_fabric_are_not_judged() -> None:
    for changes in ({"fabric_state": None}, {"fabric_state": 0}, {"fabric_state": 3, "fabric_status": None}):
        assert seen_for(3600, **changes) == []
    assert codes(Course().look_for(answered([geforce()]), 600).gpus[0]) == []
