"""What NvmlDriver makes of each answer: present, absent, absurd."""

from __future__ import annotations

import importlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from gpumesh.health.devices import Process
from gpumesh.health.nvml import NvmlDriver
from gpumesh.health.simulated import load_profile
from tests.fakes.nvml import profile
from tests.fakes.nvml.fixtures import OLDEST_BINDINGS, read
from tests.fakes.nvml.state import FakeDriver
from tests.health.builders import Course, answered, codes

MIB = 1 << 20


@pytest.mark.parametrize("load", ["idle", "loaded"])
@pytest.mark.parametrize("name", profile.names())
def test_every_value_of_a_captured_card_is_read_and_what_it_lacks_is_absent(
    cards: FakeDriver, driver: NvmlDriver, binding: str, name: str, load: str
) -> None:
    cards.add_gpu(name, load=load)
    known = load_profile(name)
    opened = driver.open()
    assert asdict(opened) == asdict(replace(known.driver, backend="nvml"))
    assert driver.count() == 1
    state = driver.probe_device(0)
    assert state.info is not None
    assert state.info == replace(
        known.card,
        uuid=str(cards.get(0, "uuid")),
        pci_bus_id=str(cards.get(0, "pci_bus_id")),
        serial=cards.get(0, "serial"),
        minor=0,
    )
    expected = known.loaded if load == "loaded" else known.idle
    if binding == OLDEST_BINDINGS:
        # That binding has no calls for these.
        expected = replace(expected, temperature_margin_c=None, addressing_mode=None)
    reading = read(driver)
    assert reading.processes is not None
    assert expected.processes is not None
    assert sorted((item.kind, item.memory_bytes or -1) for item in reading.processes) == sorted(
        (item.kind, item.memory_bytes or -1) for item in expected.processes
    )
    # Where the energy counter stood when the card was looked at is not known.
    unlike: dict[str, Any] = {"processes": None, "energy_mj": None, "mig_instances": None}
    assert replace(reading, **unlike) == replace(expected, **unlike)
    assert (reading.energy_mj is None) == (expected.energy_mj is None)
    assert (reading.energy_mj or 1) > 0
    assert [replace(item, uuid="") for item in reading.mig_instances or ()] == list(
        expected.mig_instances or ()
    )
    assert state.num_dropped == 0


def test_a_margin_below_zero_is_a_small_number_and_not_an_absurd_one(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    cards.add_gpu("h100")
    cards.set(0, "temperature_margin_c", -3)
    driver.open()
    state = driver.probe_device(0)
    assert state.info is not None
    assert state.info.temperature_slowdown_margin_c == -2
    assert read(driver).temperature_margin_c == -3
    assert state.num_dropped == 0


def test_an_h100_at_87_degrees_within_its_own_margin_is_well(cards: FakeDriver, driver: NvmlDriver) -> None:
    cards.add_gpu("h100", load="loaded")
    cards.set(0, "temperature_c", 87)
    cards.set(0, "temperature_margin_c", 0)
    driver.open()
    card = driver.probe_device(0)
    assert Course(interval_s=10).look_for(answered([card]), 600).gpus[0].findings == ()
    cards.set(0, "temperature_margin_c", -2)
    hot = driver.probe_device(0)
    assert codes(Course(interval_s=10).look_for(answered([hot]), 60).gpus[0]) == ["temperature/hot"]


def test_a_geforce_card_says_nothing_of_ecc(cards: FakeDriver, driver: NvmlDriver) -> None:
    cards.add_gpu("rtx-4080-super")
    driver.open()
    reading = read(driver)
    assert reading.ecc_dbe_volatile is None
    assert reading.remap_failed is None
    assert reading.temperature_memory_c is None
    assert reading.mig_enabled is None
    assert reading.fan_percent == 0


def test_gpustat_141_memory_kept_by_the_driver_is_not_used_memory(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    cards.add_gpu("h200")
    driver.open()
    reading = read(driver)
    assert reading.memory_used_bytes == 0
    assert reading.memory_reserved_bytes == 614 * MIB


def test_without_the_newer_memory_call_the_reserved_part_is_unknown(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    cards.add_gpu("h200")
    cards.fail("nvmlDeviceGetMemoryInfo_v2", 13)
    driver.open()
    reading = read(driver)
    assert reading.memory_reserved_bytes is None
    assert reading.memory_used_bytes == 614 * MIB, "the older call counts it as used"


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        ("temperature_c", 4294967295, "temperature_c"),
        ("temperature_c", 201, "temperature_c"),
        ("utilization_gpu_percent", 101, "utilization_gpu_percent"),
        ("power_mw", 6_000_000, "power_w"),
        ("fan_percent", 4000, "fan_percent"),
        ("memory_used_bytes", "900 GiB", "memory_used_bytes"),
        ("pcie_width", 4294967295, "pcie_width"),
        ("clock_sm_mhz", 4294967295, "sm_clock_mhz"),
    ],
)
def test_an_absurd_value_is_dropped_and_counted(
    cards: FakeDriver, driver: NvmlDriver, key: str, value: int | str, field: str
) -> None:
    cards.add_gpu("rtx-4080-super")
    cards.set(0, key, value)
    driver.open()
    state = driver.probe_device(0)
    assert state.reading is not None
    assert getattr(state.reading, field) is None
    assert state.num_dropped >= 1
    assert state.reading.memory_clock_mhz == 405


def test_a_fan_above_its_noise_limit_is_not_absurd(cards: FakeDriver, driver: NvmlDriver) -> None:
    cards.add_gpu("rtx-4080-super")
    cards.set(0, "fan_percent", 110)
    driver.open()
    assert read(driver).fan_percent == 110


def test_processes_have_names_where_proc_tells_and_unknown_memory_is_not_zero(
    cards: FakeDriver, driver: NvmlDriver, tmp_path: Path
) -> None:
    cards.add_gpu("h100")
    cards.set(0, "process 4242", "compute+graphics 360 MiB")
    cards.set(0, "process 4343", "compute unavailable")
    (tmp_path / "proc/4242").mkdir(parents=True)
    (tmp_path / "proc/4242/comm").write_text("blender\n")
    number = (tmp_path / "proc/4242").stat().st_uid
    driver.open()
    assert set(read(driver).processes or ()) == {
        Process(4242, "compute+graphics", 360 * MIB, "blender", user=str(number)),
        Process(4343, "compute", None, None),
    }
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(f"broken\nroot:x\nada:x:{number}:100:Ada:/home/ada:/bin/sh\n")
    assert {item.user for item in read(driver).processes or ()} == {"ada", None}


def test_a_text_that_is_no_text_is_dropped(cards: FakeDriver, driver: NvmlDriver) -> None:
    cards.add_gpu("h100")
    cards.path.write_bytes(cards.text().replace("96.00.A5", "\udcff96").encode("utf-8", "surrogateescape"))
    driver.open()
    state = driver.probe_device(0)
    assert state.info is not None
    assert state.info.vbios is None
    assert state.num_dropped == 1
    assert state.reading is not None


def test_a_link_that_is_down_is_told_and_one_that_is_not_there_is_not_down(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    cards.add_gpu("h100")
    cards.set(0, "num_nvlinks", 4)
    cards.set(0, "nvlinks_down_mask", 0b0100)
    driver.open()
    state = driver.probe_device(0)
    assert state.reading is not None
    assert state.reading.nvlinks == (True, True, False, True)
    cards.fail("nvmlDeviceGetNvLinkState", 3, slot=0)
    driver.close()
    driver.open()
    state = driver.probe_device(0)
    assert state.reading is not None
    assert state.reading.nvlinks == (None, None, None, None)
    assert state.error == ""


def test_a_card_without_links_has_none_and_not_zero_that_are_up(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    cards.add_gpu("rtx-4080-super")
    driver.open()
    state = driver.probe_device(0)
    assert state.info is not None
    assert state.info.num_nvlinks is None
    assert read(driver).nvlinks is None


def test_nvlink_counters_are_those_of_all_links(cards: FakeDriver, driver: NvmlDriver) -> None:
    cards.add_gpu("h100")
    for field, value in ((38, 1), (45, 2), (52, 3), (59, 4), (138, 1000), (139, 2000)):
        cards.set(0, f"field {field}", value)
    driver.open()
    reading = read(driver)
    assert (reading.nvlink_tx_kib, reading.nvlink_rx_kib) == (1000, 2000)
    assert (reading.nvlink_crc_flit_errors, reading.nvlink_crc_data_errors) == (1, 2)
    assert (reading.nvlink_replay_errors, reading.nvlink_recovery_errors) == (3, 4)


def test_time_under_each_reason_for_slow_clocks_is_counted(cards: FakeDriver, driver: NvmlDriver) -> None:
    cards.add_gpu("h100")
    cards.set(0, "violation_power_ns", 5_000)
    cards.set(0, "slowdown_hardware_thermal_ns", 7_000)
    cards.set(0, "violation_thermal_ns", 0xFFFFFFFFFFFFFFFF)
    driver.open()
    state = driver.probe_device(0)
    assert state.reading is not None
    assert state.reading.power_violation_ns == 5_000
    assert state.reading.slowdown_hardware_thermal_ns == 7_000
    assert state.reading.thermal_violation_ns is None, "all bits set is no time"
    assert state.num_dropped == 1


def test_the_host_that_limits_the_link_can_be_told_from_the_card(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    cards.add_gpu("rtx-4080-super")
    cards.set(0, "pcie_generation_max", 3)
    driver.open()
    info = driver.probe_device(0).info
    assert info is not None
    assert (info.pcie_gen_max, info.pcie_gen_card_max) == (3, 4)


def test_a_fabric_that_is_not_ready_is_told_and_one_that_is_not_there_is_absent(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    cards.add_gpu("h100")
    cards.add_gpu("rtx-4080-super")
    cards.set(0, "fabric_state", 2)
    driver.open()
    assert (read(driver, 0).fabric_state, read(driver, 0).fabric_status) == (2, None)
    assert read(driver, 1).fabric_state is None


def test_a_field_of_a_type_that_the_binding_does_not_know_is_absent(
    cards: FakeDriver, driver: NvmlDriver, binding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unsigned shorts came after 12.535; a later driver may bring more."""
    cards.add_gpu("h100")
    nvml: Any = importlib.import_module("pynvml")
    ask = nvml.nvmlDeviceGetFieldValues

    def answer(*arguments: Any) -> Any:
        values = ask(*arguments)
        values[0].valueType, values[1].valueType = 6, 77
        return values

    monkeypatch.setattr(nvml, "nvmlDeviceGetFieldValues", answer)
    driver.open()
    reading = read(driver)
    expected = None if binding == OLDEST_BINDINGS else 0
    assert (reading.ecc_sbe_volatile, reading.ecc_dbe_volatile) == (expected, None)
    assert reading.ecc_sbe_aggregate == 0
