"""NvmlDriver through the real binding and a library compiled against NVIDIA's header."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import types
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from gpumesh.errors import DriverAbsentError, DriverError
from gpumesh.health.devices import DeviceState, MigInstance, Process, Reading
from gpumesh.health.nvml import SELDOM_LOOKS, NvmlDriver
from gpumesh.health.nvml_events import MAX_EVENTS
from gpumesh.health.simulated import load_profile
from tests.fakes.conftest import OLDEST_BINDINGS
from tests.fakes.conftest import oldest_bindings as oldest_bindings  # noqa: PLC0414 - a fixture
from tests.fakes.nvml import build, profile
from tests.fakes.nvml.state import FakeDriver
from tests.health.builders import Course, answered, codes

LOST, NOT_FOUND, UNKNOWN = 15, 28, 999
MIB = 1 << 20


@pytest.fixture(scope="module")
def state_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The fake, loaded first, is what the binding gets by name; it remembers the file it was loaded with."""
    path = tmp_path_factory.mktemp("fake") / "state"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUMESH_FAKE_NVML", str(path))
        ctypes.CDLL(str(build.library() / build.LIBRARY))
        yield path


@pytest.fixture
def cards(state_file: Path, tmp_path: Path) -> FakeDriver:
    state_file.unlink(missing_ok=True)
    return FakeDriver(state_file, host=tmp_path.name)


@pytest.fixture(params=["installed", OLDEST_BINDINGS])
def binding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    if name == OLDEST_BINDINGS:
        folder: Path = request.getfixturevalue("oldest_bindings")
        specification = importlib.util.spec_from_file_location("pynvml", folder / "pynvml.py")
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        monkeypatch.setitem(sys.modules, "pynvml", module)
    return name


@pytest.fixture
def driver(cards: FakeDriver, tmp_path: Path) -> Iterator[NvmlDriver]:
    opened = NvmlDriver(root=tmp_path)
    yield opened
    opened.close()


def read(driver: NvmlDriver, index: int = 0) -> Reading:
    state = driver.probe_device(index)
    assert state.error == ""
    assert state.reading is not None
    return state.reading


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
    unlike: dict[str, Any] = {"processes": None, "energy_mj": None}
    free_bytes = (reading.memory_free_bytes or 0) - (expected.memory_free_bytes or 0)
    assert abs(free_bytes) <= 2 * MIB, "nvidia-smi rounds each of three to MiB"
    assert replace(reading, **unlike, memory_free_bytes=0) == replace(expected, **unlike, memory_free_bytes=0)
    assert (reading.energy_mj or 0) > 0
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


@pytest.mark.parametrize("code", [LOST, NOT_FOUND, UNKNOWN])
def test_device_plugin_338_a_card_without_a_handle_is_lost_and_hides_no_other(
    cards: FakeDriver, driver: NvmlDriver, code: int
) -> None:
    cards.add_gpu("h100")
    bad = cards.add_gpu("h100")
    driver.open()
    uuid = driver.probe_device(bad).info
    cards.fail_handle(bad, code)
    assert driver.count() == 2
    state = driver.probe_device(bad)
    assert state.is_lost
    assert state.error_code == code
    assert state.reading is None
    assert state.info == uuid, "it is still known which card is lost"
    assert read(driver, 0).temperature_c == 41


def test_gpud_1180_a_card_lost_under_way_is_lost_until_it_answers_again(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    cards.add_gpu("h100")
    driver.open()
    assert driver.count() == 1
    read(driver)
    cards.lose(0)
    state = driver.probe_device(0)
    assert (state.is_lost, state.error_code) == (True, LOST)
    assert "lost" in state.error
    cards.clear_faults()
    assert read(driver).temperature_c == 41


def test_an_error_of_one_call_costs_that_value_alone_and_is_told(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    cards.add_gpu("h100")
    driver.open()
    cards.fail("nvmlDeviceGetPowerUsage", UNKNOWN, slot=0)
    state = driver.probe_device(0)
    assert state.reading is not None
    assert state.reading.power_w is None
    assert state.reading.temperature_c == 41
    assert not state.is_lost
    assert state.error_code == UNKNOWN
    assert "nvmlDeviceGetPowerUsage" in state.error


def test_a_field_that_fails_inside_a_batch_that_succeeds_is_absent(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    cards.add_gpu("h100")
    driver.open()
    cards.fail_field(82, 3)
    reading = read(driver)
    assert reading.temperature_memory_c is None
    assert reading.ecc_sbe_volatile == 0


def test_what_a_card_cannot_say_is_asked_once(cards: FakeDriver, tmp_path: Path) -> None:
    calls: list[str] = []
    cards.add_gpu("rtx-4080-super")
    driver = NvmlDriver(root=tmp_path, announce=calls.append)
    driver.open()
    read(driver)
    assert "nvmlDeviceGetRemappedRows on gpu 0" in calls
    assert "nvmlDeviceGetVbiosVersion on gpu 0" in calls
    calls.clear()
    read(driver)
    assert "nvmlDeviceGetTemperature on gpu 0" in calls
    assert not {"nvmlDeviceGetRemappedRows on gpu 0", "nvmlDeviceGetMigMode on gpu 0"} & set(calls)
    assert "nvmlDeviceGetVbiosVersion on gpu 0" not in calls, "what does not change is read once"
    driver.close()


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


def test_cards_that_move_up_keep_their_identity(cards: FakeDriver, driver: NvmlDriver) -> None:
    first, second = cards.add_gpu("h100"), cards.add_gpu("h200")
    driver.open()
    assert driver.count() == 2
    read(driver, 0)
    read(driver, 1)
    cards.remove_gpu(first)
    assert driver.count() == 1
    info = driver.probe_device(0).info
    assert info is not None
    assert (info.index, info.uuid, info.name) == (0, cards.get(second, "uuid"), "NVIDIA H200")
    gone = driver.probe_device(1)
    assert gone.info is None
    assert gone.error


def test_a_text_that_is_no_text_is_dropped(cards: FakeDriver, driver: NvmlDriver) -> None:
    cards.add_gpu("h100")
    cards.path.write_bytes(cards.text().replace("96.00.A5", "\udcff96").encode("utf-8", "surrogateescape"))
    driver.open()
    state = driver.probe_device(0)
    assert state.info is not None
    assert state.info.vbios is None
    assert state.num_dropped == 1
    assert state.reading is not None


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        (9, DriverAbsentError, "modprobe nvidia"),
        (12, DriverAbsentError, "libnvidia-ml.so.1"),
        (18, DriverAbsentError, "kernel module 535.161.07"),
        (999, DriverError, "unknown error"),
    ],
)
def test_a_driver_that_refuses_says_what_to_do(
    cards: FakeDriver, tmp_path: Path, code: int, kind: type[DriverError], hint: str
) -> None:
    version = tmp_path / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17 22:55:48 UTC 2024\n"
    )
    (tmp_path / "proc/self").mkdir()
    (tmp_path / "proc/self/maps").write_text(
        "7f00-7f01 r--p 00000000 08:01 42  /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.183.01\n"
    )
    cards.add_gpu("h100")
    cards.fail_init(code)
    with pytest.raises(DriverError, match=hint) as caught:
        NvmlDriver(root=tmp_path).open()
    assert type(caught.value) is kind
    assert caught.value.code == code
    if code == 18:
        assert "library 535.183.01" in str(caught.value)


def test_vllm_7649_the_stray_binding_is_named(cards: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    stray = types.ModuleType("pynvml")
    stray.__file__ = "/usr/lib/python3/dist-packages/pynvml/__init__.py"
    monkeypatch.setitem(sys.modules, "pynvml", stray)
    with pytest.raises(DriverAbsentError, match=r"pynvml/__init__\.py lacks .* uninstall pynvml"):
        NvmlDriver().open()


def test_without_the_binding_it_is_named(cards: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(DriverAbsentError, match="install nvidia-ml-py"):
        NvmlDriver().open()


def test_a_closed_driver_can_be_opened_again(cards: FakeDriver, driver: NvmlDriver) -> None:
    cards.add_gpu("h100")
    for _ in range(2):
        driver.open()
        read(driver)
        driver.close()
    driver.close()


def test_every_call_is_announced_before_it_is_made(cards: FakeDriver, tmp_path: Path) -> None:
    calls: list[str] = []
    cards.add_gpu("h100")
    driver = NvmlDriver(root=tmp_path, announce=calls.append)
    driver.open()
    assert calls[0] == "nvmlInit"
    driver.count()
    assert calls[-1] == "nvmlDeviceGetCount"
    cards.fail("nvmlDeviceGetFanSpeed", LOST)
    state: DeviceState = driver.probe_device(0)
    assert state.is_lost
    assert [call for call in calls if "Event" not in call][-1] == "nvmlDeviceGetFanSpeed on gpu 0"
    driver.close()
    assert calls[-1] == "nvmlShutdown"


def xids(driver: NvmlDriver, index: int = 0) -> tuple[int, ...]:
    return driver.probe_device(index).xids


def test_an_xid_is_told_once_and_by_its_own_card(cards: FakeDriver, driver: NvmlDriver, binding: str) -> None:
    cards.add_gpu("h100")
    cards.add_gpu("h200")
    driver.open()
    assert (xids(driver, 0), xids(driver, 1)) == ((), ())
    cards.xid(1, 31)
    cards.xid(1, 43)
    assert (xids(driver, 0), xids(driver, 1)) == ((), (31, 43))
    assert (xids(driver, 0), xids(driver, 1)) == ((), ())


def test_a_card_that_is_lost_still_tells_the_xid_and_silences_no_other(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    bad, good = cards.add_gpu("h100"), cards.add_gpu("h100")
    driver.open()
    assert (xids(driver, bad), xids(driver, good)) == ((), ())
    cards.xid(bad, 79)
    cards.lose(bad)
    state = driver.probe_device(bad)
    assert (state.is_lost, state.xids) == (True, (79,))
    cards.xid(good, 31)
    assert (xids(driver, bad), xids(driver, good)) == ((), (31,))
    cards.clear_faults()
    assert xids(driver, bad) == ()
    cards.xid(bad, 13)
    assert xids(driver, bad) == (13,), "watched anew since it answers again"


def test_a_card_without_events_is_asked_once_and_read_all_the_same(cards: FakeDriver, tmp_path: Path) -> None:
    calls: list[str] = []
    cards.add_gpu("h100")
    cards.set(0, "event_types", None)
    driver = NvmlDriver(root=tmp_path, announce=calls.append)
    driver.open()
    assert read(driver).temperature_c == 41
    read(driver)
    assert calls.count("nvmlDeviceGetSupportedEventTypes on gpu 0") == 1
    assert "nvmlEventSetWait_v2 on gpu 0" not in calls
    driver.close()


def test_a_flood_of_events_is_taken_in_bounded_bites(cards: FakeDriver, driver: NvmlDriver) -> None:
    cards.add_gpu("h100")
    driver.open()
    assert xids(driver) == ()
    lines = "".join(f"xid gpu 0 31 {number}\n" for number in range(1, MAX_EVENTS + 11))
    cards.path.write_text(cards.text() + lines)
    assert [len(xids(driver)) for _ in range(3)] == [MAX_EVENTS, 10, 0]


def test_closing_lets_go_of_the_event_sets(cards: FakeDriver, tmp_path: Path) -> None:
    calls: list[str] = []
    cards.add_gpu("h100")
    driver = NvmlDriver(root=tmp_path, announce=calls.append)
    driver.open()
    read(driver)
    driver.close()
    assert calls[-2:] == ["nvmlEventSetFree on gpu 0", "nvmlShutdown"]


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


def carve(cards: FakeDriver, slot: int) -> None:
    """Turn MIG on, as an A100 or H100 then answers: neither utilisation nor remapped rows."""
    cards.set(slot, "mig_mode", 1)
    for key in ("utilization_gpu_percent", "utilization_memory_percent", "remapped_rows_correctable"):
        cards.set(slot, key, None)


def test_mig_instances_are_told_with_their_memory_as_it_is_now(
    cards: FakeDriver, driver: NvmlDriver, binding: str
) -> None:
    cards.add_gpu("h100")
    carve(cards, 0)
    cards.set(0, "mig 1", "1g.10gb 9 0 9856MiB 24MiB")
    cards.set(0, "mig 3", "3g.40gb 2 0 40320MiB 0")
    driver.open()
    reading = read(driver)
    assert reading.mig_enabled
    assert reading.utilization_gpu_percent is None
    assert reading.remapped_correctable is None
    assert reading.temperature_c == 41, "what the parent can say is there"
    first, second = reading.mig_instances or ()
    assert first.uuid.startswith("MIG-")
    assert first.uuid != second.uuid
    assert replace(first, uuid="") == MigInstance("", 9, 0, "1g.10gb", 9856 * MIB, 24 * MIB, 9832 * MIB)
    assert (second.profile, second.memory_used_bytes) == ("3g.40gb", 0)
    cards.set(0, "mig 1", "1g.10gb 9 0 9856MiB 1024MiB")
    assert [item.memory_used_bytes for item in read(driver).mig_instances or ()] == [1024 * MIB, 0]


def test_mig_that_is_on_without_instances_is_empty_and_off_is_absent(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    cards.add_gpu("h100")
    driver.open()
    assert read(driver).mig_instances is None
    carve(cards, 0)
    assert read(driver).mig_instances == ()
    cards.set(0, "mig_mode", 0)
    assert read(driver).mig_instances is None


def test_memory_of_a_mig_instance_that_a_container_may_not_see_is_absent(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    cards.add_gpu("h100")
    carve(cards, 0)
    cards.set(0, "mig 1", "1g.10gb 9 0 9856MiB 24MiB")
    cards.fail("nvmlDeviceGetMemoryInfo", 4)
    driver.open()
    (instance,) = read(driver).mig_instances or ()
    assert instance.memory_used_bytes is None


def test_a_vgpu_guest_is_never_asked_for_what_its_kernel_warns_about(
    cards: FakeDriver, tmp_path: Path
) -> None:
    calls: list[str] = []
    cards.add_gpu("h100")
    cards.set(0, "virtualization_mode", 2)
    driver = NvmlDriver(root=tmp_path, announce=calls.append)
    driver.open()
    reading = read(driver)
    assert reading.remap_banks_max is None
    assert reading.ecc_enabled
    assert "nvmlDeviceGetRowRemapperHistogram on gpu 0" not in calls
    driver.close()


def test_what_hardly_changes_is_read_once_in_a_while(cards: FakeDriver, tmp_path: Path) -> None:
    calls: list[str] = []
    cards.add_gpu("h100")
    driver = NvmlDriver(root=tmp_path, announce=calls.append)
    driver.open()
    readings = [read(driver) for _ in range(SELDOM_LOOKS + 1)]
    assert calls.count("nvmlDeviceGetEccMode on gpu 0") == 2
    assert calls.count("nvmlDeviceGetTemperature on gpu 0") == SELDOM_LOOKS + 1
    assert {reading.ecc_enabled for reading in readings} == {True}
    driver.close()


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


def test_a_look_at_a_card_is_a_bounded_number_of_calls(cards: FakeDriver, tmp_path: Path) -> None:
    calls: list[str] = []
    cards.add_gpu("h100", load="loaded")
    driver = NvmlDriver(root=tmp_path, announce=calls.append)
    driver.open()
    read(driver)
    calls.clear()
    read(driver)
    assert len(calls) <= 32
    assert len(set(calls)) >= len(calls) - 6, "the same call only for clocks, memory's forms and the like"
    driver.close()
