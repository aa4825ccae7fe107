"""The checks that look at one card by itself: what each rule must see and what it must leave alone."""

from __future__ import annotations

from typing import Any

import pytest

from gpumesh.health.devices import DeviceState
from gpumesh.model import Action, Severity, Verdict
from tests.health.builders import Course, answered, codes, geforce, h100, only

NO_LIMITS: dict[str, Any] = {"temperature_slowdown_c": None, "temperature_max_c": None, "fan_percent": 60}
LOADED: dict[str, Any] = {"performance_state": 2, "utilization_gpu_percent": 97, "clocks_event_reasons": 0}


@pytest.mark.parametrize(
    ("card", "code"),
    [
        (h100(ecc_dbe_volatile=1), "ecc/uncorrected"),
        (h100(remap_failed=True), "row-remap/failed"),
        (h100(remap_pending=True), "row-remap/pending"),
        (h100(remapped_uncorrectable=512), "row-remap/many"),
        (h100(retired_sbe=40, retired_dbe=23), "retired-pages/full"),
        (h100(retired_pending=True), "retired-pages/pending"),
        (h100(recovery_action=1), "recovery-action/reset"),
        (h100(recovery_action=2), "recovery-action/reboot"),
        (h100(recovery_action=3), "recovery-action/drain"),
        (h100(recovery_action=4), "recovery-action/drain"),
        (h100(recovery_action=77), "recovery-action/other"),
    ],
)
def test_hard_facts_are_findings_at_the_first_look(card: DeviceState, code: str) -> None:
    gpu = Course().look(answered([card])).gpus[0]
    assert codes(gpu) == [code]
    assert gpu.verdict is not Verdict.HEALTHY
    assert only(gpu).action in {Action.RESET, Action.REBOOT, Action.REPLACE, Action.INSPECT}


@pytest.mark.parametrize(
    ("card", "code", "stands_after_s", "severity"),
    [
        (geforce(temperature_c=91, fan_percent=80), "temperature/warm", 300, Severity.WARNING),
        (geforce(temperature_c=81, **NO_LIMITS), "temperature/warm", 300, Severity.WARNING),
        (h100(temperature_memory_c=96), "memory-temperature/hot", 60, Severity.WARNING),
        (geforce(temperature_c=70, fan_percent=0), "fan/stopped", 60, Severity.WARNING),
        (geforce(pcie_width=8), "pcie/width", 60, Severity.WARNING),
        (geforce(pcie_gen=1, **LOADED), "pcie/generation", 60, Severity.WARNING),
        (geforce(clocks_event_reasons=0x20), "sw-thermal/slowdown", 1800, Severity.WARNING),
    ],
)
def test_soft_signals_stand_for_their_time_before_they_are_findings(
    card: DeviceState, code: str, stands_after_s: float, severity: Severity
) -> None:
    course = Course()
    before = course.look_for(answered([card]), stands_after_s - 5).gpus[0]
    assert before.findings == ()
    gpu = course.look(answered([card])).gpus[0]
    assert codes(gpu) == [code]
    assert only(gpu).severity is severity


@pytest.mark.parametrize(
    "card",
    [
        geforce(),
        h100(),
        geforce(temperature_c=90, fan_percent=100),
        geforce(temperature_c=80, **NO_LIMITS),
        geforce(temperature_c=46, fan_percent=0),
        geforce(temperature_c=88, fan_percent=None),
        geforce(clocks_event_reasons=0x1),
        geforce(clocks_event_reasons=0x4),
        geforce(clocks_event_reasons=0x2 | 0x10 | 0x100),
        geforce(temperature_c=None, clocks_event_reasons=None, pcie_gen=None, pcie_width=None),
        geforce(pcie_gen=4, **LOADED),
        geforce(pcie_width=8, pcie_width_max=8),
        h100(temperature_memory_c=95),
        h100(remapped_correctable=900, remapped_uncorrectable=511),
        h100(retired_sbe=30, retired_dbe=15),
        h100(ecc_sbe_volatile=12345),
    ],
    ids=lambda card: card.info.name,
)
def test_how_healthy_cards_live_is_no_fault_even_for_an_hour(card: DeviceState) -> None:
    gpu = Course(interval_s=10).look_for(answered([card]), 3600).gpus[0]
    assert gpu.findings == ()
    assert gpu.verdict is Verdict.HEALTHY


def test_generation_one_at_idle_is_fine_and_under_load_a_fault() -> None:
    """nvtop#6 and open-gpu-kernel-modules#1010: the same reading, healthy at rest and stuck under load."""
    course = Course()
    assert course.look_for(answered([geforce(pcie_gen=1)]), 600).gpus[0].findings == ()
    gpu = course.look_for(answered([geforce(pcie_gen=1, **LOADED)]), 60).gpus[0]
    assert codes(gpu) == ["pcie/generation"]


def test_at_the_slowdown_limit_a_card_is_unhealthy_after_a_minute() -> None:
    course = Course()
    hot = answered([geforce(temperature_c=96, fan_percent=100)])
    assert course.look_for(hot, 55).gpus[0].verdict is Verdict.HEALTHY
    gpu = course.look(hot).gpus[0]
    assert codes(gpu) == ["temperature/hot"]
    assert gpu.verdict is Verdict.UNHEALTHY


def test_a_card_without_limits_is_held_to_fixed_ones() -> None:
    course = Course()
    report = course.look_for(answered([geforce(temperature_c=86, **NO_LIMITS)]), 60)
    assert codes(report.gpus[0]) == ["temperature/hot"]
    assert "names no limit of its own" in only(report.gpus[0]).reason


def test_a_card_that_tells_its_margin_is_held_to_that_and_not_to_fixed_degrees() -> None:
    """H100 capture: 41 °C with T.Limit 46, so 87 °C are in order, and it slows down at -2."""
    limits: dict[str, Any] = {"temperature_slowdown_margin_c": -2}
    fine = h100(temperature_c=87, temperature_margin_c=0, **limits)
    assert Course(interval_s=10).look_for(answered([fine]), 3600).gpus[0].findings == ()
    over = h100(temperature_c=88, temperature_margin_c=-1, **limits)
    assert codes(Course().look_for(answered([over]), 300).gpus[0]) == ["temperature/warm"]
    slowing = h100(temperature_c=89, temperature_margin_c=-2, **limits)
    gpu = Course().look_for(answered([slowing]), 60).gpus[0]
    assert codes(gpu) == ["temperature/hot"]
    assert only(gpu).reason == "2 °C above the card's highest operating temperature: it slows down"


def test_fixed_degrees_never_stand_in_for_a_margin_that_an_old_driver_cannot_tell() -> None:
    card = h100(temperature_c=87, temperature_slowdown_margin_c=-2)
    assert Course(interval_s=10).look_for(answered([card]), 3600).gpus[0].findings == ()


def test_a_short_peak_is_forgotten() -> None:
    course = Course()
    for _ in range(10):
        report = course.look_for(answered([geforce(temperature_c=97, fan_percent=100)]), 50)
        assert report.gpus[0].findings == ()
        course.look(answered([geforce()]))


def test_a_hot_card_is_well_again_only_after_two_cool_minutes() -> None:
    course = Course()
    course.look_for(answered([geforce(temperature_c=97, fan_percent=100)]), 60)
    assert course.look_for(answered([geforce()]), 115).gpus[0].verdict is Verdict.UNHEALTHY
    assert course.look(answered([geforce()])).gpus[0].verdict is Verdict.HEALTHY


def test_a_reset_clears_uncorrected_errors_after_three_clean_looks() -> None:
    course = Course()
    course.look(answered([h100(ecc_dbe_volatile=3)]))
    assert course.look(answered([h100()]), times=2).gpus[0].verdict is Verdict.UNHEALTHY
    assert course.look(answered([h100()])).gpus[0].verdict is Verdict.HEALTHY


def test_pages_retired_within_a_week_are_a_fault_and_over_a_year_are_not() -> None:
    day = 24 * 3600.0
    slow, fast = Course(interval_s=10 * day), Course(interval_s=day)
    for count in range(10, 20):
        assert slow.look(answered([h100(retired_dbe=count, retired_sbe=0)])).gpus[0].findings == ()
    for count in (14, 15):
        assert fast.look(answered([h100(retired_dbe=count, retired_sbe=0)])).gpus[0].findings == ()
    gpu = fast.look(answered([h100(retired_dbe=16, retired_sbe=0)])).gpus[0]
    assert codes(gpu) == ["retired-pages/rising"]
    assert "2 of them within a week" in only(gpu).reason
