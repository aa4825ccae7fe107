from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpumesh.config import BaselineConfig, Config, GpuConfig, SharingConfig
from gpumesh.errors import ConfigError
from gpumesh.health.inventory import Inventory
from gpumesh.model import Action, Severity, Verdict
from tests.health.builders import (
    DRIVER,
    UNIX,
    Course,
    absent,
    answered,
    busy,
    codes,
    geforce,
    h100,
    hung,
    lost,
    only,
    uuid,
)


def test_healthy_cards_of_both_kinds_give_a_report_without_findings() -> None:
    report = Course().look(answered([geforce(0), h100(1)]))
    assert report.verdict is Verdict.HEALTHY
    assert report.findings == ()
    assert [gpu.verdict for gpu in report.gpus] == [Verdict.HEALTHY] * 2
    assert [gpu.capability for gpu in report.gpus] == ["8.9", "9.0"]
    assert (report.driver_version, report.cuda_version) == ("535.183.01", "12.2")
    assert report.baseline is not None
    assert all(item.is_met for item in report.baseline.items)


def test_before_the_first_probe_all_is_unknown_and_known_cards_are_named() -> None:
    course = Course()
    course.look(answered([geforce(0)]))
    report = Course(inventory=course.health.inventory).health.report
    assert report.verdict is Verdict.UNKNOWN
    assert [(gpu.uuid, gpu.verdict, gpu.is_busy) for gpu in report.gpus] == [(uuid(0), Verdict.UNKNOWN, None)]


def test_noise_in_readings_leaves_the_very_same_report() -> None:
    course = Course()
    first = course.look(answered([geforce(temperature_c=43, power_w=25.0)]))
    second = course.look(answered([geforce(temperature_c=61, power_w=180.5, utilization_gpu_percent=7)]))
    assert second is first


def test_a_standing_finding_does_not_change_its_words_with_each_look() -> None:
    course = Course()
    hot = [course.look_for(answered([geforce(temperature_c=96, fan_percent=90)]), 60)]
    hot += [course.look(answered([geforce(temperature_c=97 + n % 2, fan_percent=90)])) for n in range(10)]
    assert codes(hot[0].gpus[0]) == ["temperature/hot"]
    assert all(report is hot[0] for report in hot)


def test_a_standing_finding_takes_over_newer_numbers_after_a_while_but_keeps_since() -> None:
    course = Course()
    first = only(course.look(answered([h100(ecc_dbe_volatile=1)])).gpus[0])
    later = only(course.look_for(answered([h100(ecc_dbe_volatile=9)]), 700).gpus[0])
    assert (first.evidence["ecc_dbe_volatile"], later.evidence["ecc_dbe_volatile"]) == (1, 9)
    assert later.since == first.since


def test_one_bad_card_leaves_host_and_other_cards_healthy() -> None:
    """k8s-device-plugin#231: one lost GPU took the whole host out of service."""
    course = Course()
    cards = [geforce(n) for n in range(4)]
    course.look(answered(cards))
    report = course.look(answered([*cards[:2], lost(2), cards[3]]))
    assert report.verdict is Verdict.HEALTHY
    assert [gpu.verdict for gpu in report.gpus] == [
        Verdict.HEALTHY,
        Verdict.HEALTHY,
        Verdict.UNHEALTHY,
        Verdict.HEALTHY,
    ]
    gone = report.gpus[2]
    assert (gone.index, gone.model, gone.is_busy, gone.memory_free_bytes) == (
        None,
        "NVIDIA GeForce RTX 4080 SUPER",
        None,
        None,
    )
    assert only(gone).subject == f"gpu/{uuid(2)}"
    assert only(gone).severity is Severity.CRITICAL


def test_unhealthy_is_not_for_ever() -> None:
    """k8s-device-plugin#1014: a card stayed unhealthy until the process was restarted."""
    course = Course()
    cards = [geforce(0), geforce(1)]
    course.look(answered(cards))
    assert course.look(answered([cards[0], lost(1)])).gpus[1].verdict is Verdict.UNHEALTHY
    back = [course.look(answered(cards)).gpus[1] for _ in range(3)]
    assert [gpu.verdict for gpu in back] == [Verdict.UNHEALTHY, Verdict.UNHEALTHY, Verdict.DEGRADED]
    assert back[0].index == 1
    assert course.look_for(answered(cards), 60.0).gpus[1].verdict is Verdict.HEALTHY


def test_one_lucky_look_does_not_free_a_flapping_card() -> None:
    course = Course()
    cards = [geforce(0), geforce(1)]
    course.look(answered(cards))
    for _ in range(10):
        assert course.look(answered([cards[0], lost(1)])).gpus[1].verdict is Verdict.UNHEALTHY
        assert course.look(answered(cards), times=2).gpus[1].verdict is Verdict.UNHEALTHY


def test_a_hung_driver_is_told_at_once_with_call_and_time_and_cards_are_unknown() -> None:
    """open-gpu-kernel-modules#446, NVSentinel#1576: the probe blocked and the host stayed ready."""
    course = Course()
    course.look(answered([geforce(0), geforce(1)]))
    report = course.look(hung())
    assert report.verdict is Verdict.UNHEALTHY
    assert codes(report) == ["driver/hung"]
    assert only(report).reason.startswith("driver not answering since 2027-01-15 ")
    assert "nvmlDeviceGetTemperature" in only(report).reason
    assert [gpu.verdict for gpu in report.gpus] == [Verdict.UNKNOWN] * 2
    assert [gpu.is_busy for gpu in report.gpus] == [None, None]
    assert report.driver_version == "535.183.01"
    assert course.look(hung(), times=20) is report


def test_cards_that_answered_before_the_driver_hung_stay() -> None:
    course = Course()
    course.look(answered([geforce(0), geforce(1)]))
    report = course.look(hung([geforce(0)]))
    assert [gpu.verdict for gpu in report.gpus] == [Verdict.HEALTHY, Verdict.UNKNOWN]
    assert [gpu.index for gpu in report.gpus] == [0, 1]


def test_a_hung_driver_neither_clears_nor_adds_findings_about_cards() -> None:
    course = Course()
    cards = [geforce(0), geforce(1)]
    course.look(answered(cards))
    course.look(answered([cards[0], lost(1)]))
    report = course.look(hung(), times=50)
    assert [codes(gpu) for gpu in report.gpus] == [[], ["inventory/lost"]]
    assert [gpu.verdict for gpu in report.gpus] == [Verdict.UNKNOWN, Verdict.UNHEALTHY]


def test_the_host_is_well_again_by_itself_when_the_driver_appears() -> None:
    """nvidia_gpu_exporter#65: started before the driver."""
    course = Course()
    report = course.look(absent(12))
    assert report.verdict is Verdict.UNHEALTHY
    assert report.gpus == ()
    assert course.look(answered([geforce(0)]), times=2).verdict is Verdict.UNHEALTHY
    report = course.look(answered([geforce(0)]))
    assert report.verdict is Verdict.HEALTHY
    assert report.gpus[0].verdict is Verdict.HEALTHY


def test_without_a_driver_known_cards_are_unknown_not_lost() -> None:
    course = Course()
    course.look(answered([geforce(0)]))
    report = course.look(absent(9))
    assert [gpu.verdict for gpu in report.gpus] == [Verdict.UNKNOWN]
    assert [codes(gpu) for gpu in report.gpus] == [[]]
    assert report.driver_version is None


def test_a_failed_handle_of_one_card_does_not_hide_the_others() -> None:
    """gpud#1180, k8s-device-plugin#338: the process ended on an unknown error of one handle."""
    course = Course()
    cards = [geforce(0), geforce(1), geforce(2)]
    course.look(answered(cards))
    failed = replace(lost(1, is_named=False), error="Unknown Error (NVML 999)", error_code=999)
    report = course.look(answered([cards[0], failed, cards[2]]))
    assert [gpu.verdict for gpu in report.gpus] == [Verdict.HEALTHY, Verdict.UNHEALTHY, Verdict.HEALTHY]
    assert "Unknown Error (NVML 999)" in only(report.gpus[1]).reason


def test_a_card_that_answers_with_an_error_is_unknown_never_healthy() -> None:
    course = Course()
    course.look(answered([geforce(0)]))
    mute = replace(geforce(0), reading=None, error="infoROM is corrupted (NVML 14)", error_code=14)
    report = course.look(answered([mute]))
    assert codes(report.gpus[0]) == ["answer/error"]
    assert report.gpus[0].verdict is Verdict.UNKNOWN
    assert report.gpus[0].index == 0


def test_a_card_that_a_hung_driver_did_not_get_to_has_refused_nothing() -> None:
    course = Course()
    course.look(answered([geforce(0)]))
    stale = replace(geforce(0), reading=None, error="no answer of late")
    gpu = course.look(hung([stale]), times=20).gpus[0]
    assert gpu.findings == ()
    assert gpu.verdict is Verdict.UNKNOWN


def test_a_card_of_which_some_calls_fail_is_degraded_when_that_stands() -> None:
    course = Course()
    partly = replace(geforce(0), error="unknown error in the driver (NVML 999)", error_code=999)
    assert course.look(answered([partly])).gpus[0].verdict is Verdict.HEALTHY
    assert course.look_for(answered([partly]), 15).gpus[0].verdict is Verdict.DEGRADED


def test_a_card_that_asks_for_a_reset_is_unhealthy() -> None:
    mute = replace(geforce(0), reading=None, error="GPU requires reset (NVML 16)", error_code=16)
    gpu = Course().look(answered([mute])).gpus[0]
    assert gpu.verdict is Verdict.UNHEALTHY
    assert only(gpu).action is Action.RESET


def test_free_memory_and_occupancy_are_told() -> None:
    course = Course()
    gpu = course.look(answered([geforce(0)])).gpus[0]
    assert gpu.memory_bytes is not None
    assert gpu.memory_free_bytes == gpu.memory_bytes // 16 * 15
    assert gpu.is_busy is False
    assert course.look(answered([geforce(0, processes=(busy(),))])).gpus[0].is_busy is True
    assert course.look(answered([geforce(0, processes=None)])).gpus[0].is_busy is None


def test_programs_that_the_owner_names_do_not_make_a_card_busy() -> None:
    course = Course(Config(sharing=SharingConfig(ignore_processes=("python3",))))
    assert course.look(answered([geforce(0, processes=(busy(),))])).gpus[0].is_busy is False


def test_the_inventory_is_the_same_object_until_something_changes() -> None:
    course = Course()
    assert course.health.inventory == Inventory()
    course.look(answered([geforce(0)]))
    kept = course.health.inventory
    assert [card.uuid for card in kept.cards] == [uuid(0)]
    course.look(answered([geforce(0)]), times=5)
    assert course.health.inventory is kept
    course.look(answered([geforce(0), geforce(1)]))
    assert course.health.inventory is not kept


def test_a_restart_with_the_kept_inventory_still_misses_the_lost_card() -> None:
    course = Course()
    course.look(answered([geforce(0), geforce(1)]))
    kept = Inventory.from_json(json.loads(json.dumps(course.health.inventory.to_json())))
    report = Course(inventory=kept).look(answered([geforce(0)]))
    assert [gpu.verdict for gpu in report.gpus] == [Verdict.HEALTHY, Verdict.UNHEALTHY]


def test_the_driver_check_reports_another_driver_after_an_upgrade() -> None:
    course = Course()
    course.look(answered([geforce(0)]))
    newer = replace(DRIVER, driver_version="550.90.07", cuda_version="12.4")
    report = course.look(answered([geforce(0)], driver=newer))
    assert (report.driver_version, report.cuda_version) == ("550.90.07", "12.4")


def test_a_changed_configuration_is_taken_up_without_forgetting(tmp_path: Path) -> None:
    course = Course()
    course.look(answered([geforce(0), geforce(1)]))
    assert course.look(answered([geforce(0)])).gpus[1].verdict is Verdict.UNHEALTHY
    wrong = Config(baseline=BaselineConfig(file=str(tmp_path / "none.toml")), gpu=GpuConfig(expected=1))
    with pytest.raises(ConfigError):
        course.health.reconfigure(wrong)
    assert len(course.look(answered([geforce(0)])).gpus) == 2
    course.health.reconfigure(Config(gpu=GpuConfig(expected=1)))
    assert len(course.look(answered([geforce(0)])).gpus) == 1


def test_a_lost_card_that_is_taken_out_on_purpose_is_forgotten_by_gpu_expected() -> None:
    course = Course()
    course.look(answered([geforce(0), geforce(1)]))
    told = Course(Config(gpu=GpuConfig(expected=1)), inventory=course.health.inventory)
    report = told.look(answered([geforce(0)]))
    assert [gpu.uuid for gpu in report.gpus] == [uuid(0)]
    assert report.findings == ()


def test_beszel_1522_a_card_that_was_let_sleep_keeps_what_was_concluded_of_it() -> None:
    course = Course()
    course.look(answered([h100(remap_pending=True)]))
    awake = course.look(answered([h100(remap_pending=True)])).gpus[0]
    sleeping = replace(h100(), reading=None, is_resting=True)
    asleep = course.look_for(answered([sleeping]), 7200).gpus[0]
    assert asleep == awake
    assert course.look(answered([h100()]), times=3).gpus[0].verdict is Verdict.HEALTHY


def test_a_card_that_sleeps_since_before_the_start_is_unknown_and_not_lost() -> None:
    first = Course()
    first.look(answered([h100()]))
    again = Course(inventory=first.health.inventory)
    sleeping = replace(h100(), info=None, reading=None, is_resting=True)
    report = again.look(answered([sleeping], num_devices=1))
    assert report.findings == ()
    assert (report.gpus[0].verdict, report.gpus[0].findings) == (Verdict.UNKNOWN, ())
    assert again.look(answered([h100()])).gpus[0].verdict is Verdict.HEALTHY


def test_a_hang_that_was_kept_is_told_before_the_first_look_and_goes_once_the_driver_answers() -> None:
    before = Course()
    before.look(answered([geforce(0)]))
    course = Course(inventory=before.health.inventory)
    report = course.health.handle_kept_hang(replace(hung(), hung_for_s=600.0), course.now, UNIX + course.now)
    assert (report.verdict, codes(report)) == (Verdict.UNHEALTHY, ["driver/hung"])
    assert report.findings[0].since == UNIX + course.now - 600.0
    assert [gpu.verdict for gpu in report.gpus] == [Verdict.UNKNOWN], "not known, and not lost"
    assert codes(course.look(answered([geforce(0)]), times=2)) == ["driver/hung"], (
        "one lucky look frees nothing"
    )
    assert course.look(answered([geforce(0)]), times=3).verdict is Verdict.HEALTHY
