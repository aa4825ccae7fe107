"""Memory errors by location and rate."""

from __future__ import annotations

from typing import Any

import pytest

from gpumesh.config import Config, HealthConfig
from gpumesh.model import Action, HealthReport, Severity, Verdict
from tests.health.builders import Course, answered, codes, h100, only


def test_uncorrected_errors_are_told_with_their_place_where_that_is_known() -> None:
    told = only(Course().look(answered([h100(ecc_dbe_volatile=3)])).gpus[0])
    assert told.reason == "3 uncorrected memory errors since the last reset"
    card = h100(ecc_dbe_volatile=3, ecc_sram_uncorrected_volatile=1, ecc_dram_uncorrected_volatile=2)
    placed = only(Course().look(answered([card])).gpus[0])
    assert placed.reason.endswith("since the last reset (1 in the caches, 2 in the memory)")


@pytest.mark.parametrize(
    ("field", "limit", "code"),
    [
        pytest.param("ecc_sram_corrected_volatile", 10_000, "ecc/sram-corrected", id="azurehpc#649"),
        pytest.param("ecc_dram_corrected_volatile", 20_000_000, "ecc/dram-corrected", id="azurehpc#650"),
    ],
)
def test_corrected_errors_are_borne_up_to_azures_count_for_their_place(
    field: str, limit: int, code: str
) -> None:
    fine: dict[str, Any] = {field: limit - 1}
    assert Course().look(answered([h100(**fine)])).gpus[0].verdict is Verdict.HEALTHY
    many: dict[str, Any] = {field: limit}
    gpu = Course().look(answered([h100(**many)])).gpus[0]
    assert codes(gpu) == [code]
    assert only(gpu).severity is Severity.WARNING


def test_a_card_whose_caches_the_driver_gives_up_is_to_be_replaced() -> None:
    gpu = Course().look(answered([h100(ecc_sram_threshold_exceeded=True)])).gpus[0]
    assert codes(gpu) == ["ecc/sram-limit"]
    assert (only(gpu).severity, only(gpu).action) == (Severity.CRITICAL, Action.REPLACE)
    well = Course().look(answered([h100(ecc_sram_threshold_exceeded=False)])).gpus[0]
    assert well.verdict is Verdict.HEALTHY


def rising(field: str, an_hour: float, config: Config | None = None) -> HealthReport:
    """Feed a counter that rises so many times an hour for two of them, read once a minute."""
    course = Course(config, interval_s=60)
    report = course.health.report
    for minute in range(121):
        change: dict[str, Any] = {field: int(an_hour * minute / 60)}
        report = course.look(answered([h100(**change)]))
    return report


@pytest.mark.parametrize(
    ("field", "limit", "code"),
    [
        ("ecc_sram_corrected_volatile", 1_000, "ecc/sram-rising"),
        ("ecc_dram_corrected_volatile", 1_000_000, "ecc/dram-rising"),
    ],
)
def test_corrected_errors_that_come_fast_are_told_and_cost_nothing(field: str, limit: int, code: str) -> None:
    gpu = rising(field, limit * 1.1).gpus[0]
    assert codes(gpu) == [code]
    assert gpu.verdict is Verdict.HEALTHY
    assert rising(field, limit * 0.9).gpus[0].findings == ()


def test_a_site_says_how_many_errors_it_bears() -> None:
    site = Config(health=HealthConfig(ecc_uncorrected=5, ecc_sram_corrected=10, ecc_dram_rate=10))
    card = h100(ecc_dbe_volatile=4, ecc_sram_corrected_volatile=10)
    assert codes(Course(site).look(answered([card])).gpus[0]) == ["ecc/sram-corrected"]
    assert codes(rising("ecc_dram_corrected_volatile", 60, site).gpus[0]) == ["ecc/dram-rising"]
