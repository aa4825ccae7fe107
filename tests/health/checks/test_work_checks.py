"""Checks of how a card works: stuck, leaking, slow, replaying; and what of it is no fault at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpumesh.config import Config, HealthConfig
from gpumesh.health.checks.pcie_replays import PER_MINUTE_AND_LANE
from gpumesh.health.devices import DeviceState
from gpumesh.health.simulated import load_profile, profile_names
from gpumesh.model import Action, HealthReport, Severity, Verdict
from tests.health.builders import MIB, Course, address, answered, busy, codes, geforce, h100, only, uuid

SLOW: dict[str, Any] = {
    "utilization_gpu_percent": 100,
    "sm_clock_mhz": 345,
    "sm_clock_max_mhz": 3105,
    "power_w": 60.0,
    "power_limit_w": 320.0,
    "clocks_event_reasons": 0,
    "processes": (busy(),),
}
FULL: dict[str, Any] = {"utilization_gpu_percent": 100, "processes": (), "clocks_event_reasons": 0}
HELD: dict[str, Any] = {"memory_used_bytes": 2048 * MIB, "processes": ()}


def seen_for(card: DeviceState, seconds: float, config: Config | None = None) -> list[str]:
    return codes(Course(config).look_for(answered([card]), seconds).gpus[0])


@pytest.mark.parametrize(
    ("card", "code"),
    [
        (geforce(**FULL), "stuck/busy-for-nobody"),
        (geforce(**HELD), "memory-leak/held-by-nobody"),
        (geforce(**SLOW), "slow/clocks"),
    ],
)
def test_a_card_that_works_for_nobody_or_too_slowly_is_told_after_ten_minutes(
    card: DeviceState, code: str
) -> None:
    course = Course()
    assert course.look_for(answered([card]), 595).gpus[0].findings == ()
    gpu = course.look(answered([card])).gpus[0]
    assert codes(gpu) == [code]
    assert (only(gpu).severity, only(gpu).action) == (Severity.WARNING, Action.RESET)
    assert course.look_for(answered([geforce()]), 120).gpus[0].verdict is Verdict.HEALTHY


@pytest.mark.parametrize(
    "card",
    [
        geforce(**(FULL | {"processes": None})),
        geforce(**(FULL | {"processes": (busy(kind="graphics", name="Xorg"),)})),
        geforce(**(FULL | {"utilization_gpu_percent": 99})),
        geforce(**(FULL | {"mig_enabled": True})),
        geforce(**(HELD | {"processes": None})),
        geforce(**(HELD | {"processes": (busy(),)})),
        geforce(**(HELD | {"memory_used_bytes": 1023 * MIB})),
        geforce(**(HELD | {"mig_enabled": True})),
    ],
)
def test_whoever_is_listed_or_cannot_be_listed_holds_the_card(card: DeviceState) -> None:
    assert seen_for(card, 3600) == []


@pytest.mark.parametrize("reasons", [0x1, 0x2, 0x4, 0x10, 0x100, None])
def test_low_clocks_with_a_reason_are_no_fault_and_power_cap_and_idle_never_are(reasons: int | None) -> None:
    assert seen_for(geforce(**(SLOW | {"clocks_event_reasons": reasons})), 7200) == []


def test_a_card_at_its_power_cap_under_full_load_is_healthy() -> None:
    capped = SLOW | {"clocks_event_reasons": 0x4, "power_w": 320.0, "sm_clock_mhz": 1200}
    assert seen_for(geforce(**capped), 7200) == []


@pytest.mark.parametrize(
    "change",
    [
        {"sm_clock_mhz": 1600},
        {"power_w": 200.0},
        {"utilization_gpu_percent": 60},
        {"power_limit_w": None},
        {"sm_clock_max_mhz": None},
    ],
)
def test_low_clocks_alone_or_low_power_alone_are_no_fault(change: dict[str, Any]) -> None:
    assert seen_for(geforce(**(SLOW | change)), 3600) == []


@pytest.mark.parametrize("name", profile_names())
@pytest.mark.parametrize("load", ["idle", "loaded"])
def test_each_captured_card_is_healthy_idle_and_loaded_for_an_hour(name: str, load: str) -> None:
    profile = load_profile(name)
    reading = replace(getattr(profile, load), processes=() if load == "idle" else (busy(),))
    info = replace(profile.card, uuid=uuid(0), pci_bus_id=address(0))
    gpu = Course(interval_s=10).look_for(answered([DeviceState(0, info, reading)]), 3600).gpus[0]
    assert gpu.verdict is Verdict.HEALTHY
    assert [finding for finding in gpu.findings if finding.severity is not Severity.INFO] == []


def replaying(per_minute: float, minutes: int, config: Config | None = None, **card: Any) -> list[str]:
    """Feed a counter that rises so many times a minute, a look each five seconds; return the findings."""
    course = Course(config)
    report: HealthReport = course.health.report
    for look in range(minutes * 12 + 1):
        report = course.look(answered([geforce(pcie_replays=1000 + int(per_minute * look / 12), **card)]))
    return codes(report.gpus[0])


@pytest.mark.parametrize("generation", sorted(PER_MINUTE_AND_LANE))
def test_dcgm_184_replays_are_judged_by_generation_and_lanes(generation: int) -> None:
    borne = PER_MINUTE_AND_LANE[generation] * 16
    assert replaying(borne * 2 + 2, 4, pcie_gen_max=generation) == ["pcie-replays/many"]
    assert replaying(borne * 0.9, 10, pcie_gen_max=generation) == []


def test_a_narrow_link_bears_fewer_replays() -> None:
    assert replaying(8, 4, pcie_width=4, pcie_width_max=4) == ["pcie-replays/many"]
    assert replaying(8, 4) == []


def test_replays_are_borne_up_to_the_configured_factor() -> None:
    assert replaying(60, 4) == ["pcie-replays/many"]
    assert replaying(60, 4, Config(health=HealthConfig(replay_factor=5))) == []


def test_a_counter_that_starts_again_or_was_not_seen_for_long_is_no_burst() -> None:
    course = Course()
    for count in (0, 0, 5000, 5000, 0, 0):
        # One jump that nobody saw coming, one reset of the driver: each after a pause of ten minutes.
        course.now += 600
        course.look(answered([geforce(pcie_replays=count)]))
    assert course.look_for(answered([geforce(pcie_replays=0)]), 300).gpus[0].findings == ()


def test_one_burst_of_replays_is_forgotten() -> None:
    course = Course()
    course.look_for(answered([geforce(pcie_replays=0)]), 120)
    assert course.look_for(answered([geforce(pcie_replays=40)]), 600).gpus[0].findings == ()


def test_persistence_mode_is_told_of_on_server_cards_and_harms_no_verdict() -> None:
    gpu = Course().look(answered([h100(persistence=False)])).gpus[0]
    assert codes(gpu) == ["persistence/off"]
    assert only(gpu).severity is Severity.INFO
    assert gpu.verdict is Verdict.HEALTHY
    assert codes(Course().look(answered([geforce(persistence=False)])).gpus[0]) == []
    assert codes(Course().look(answered([h100(persistence=None)])).gpus[0]) == []


def test_thresholds_are_the_sites_own() -> None:
    site = Config(health=HealthConfig(warm_c=60, hot_c=70, stuck_after_s=60, leak_after_s=60, leak_mib=4096))
    bare: dict[str, Any] = {"temperature_slowdown_c": None, "temperature_max_c": None, "fan_percent": 60}
    assert seen_for(geforce(temperature_c=71, **bare), 60, site) == ["temperature/hot"]
    assert seen_for(geforce(**FULL), 60, site) == ["stuck/busy-for-nobody"]
    assert seen_for(geforce(**HELD), 3600, site) == []
    assert seen_for(geforce(**SLOW), 3600, Config(health=HealthConfig(slow_percent=0))) == []
