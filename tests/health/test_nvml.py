"""NvmlDriver over a library compiled against NVIDIA's header, by the real binding: sessions and refusals."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from gpumesh.errors import DriverAbsentError, DriverError
from gpumesh.health.devices import DeviceState
from gpumesh.health.nvml import SELDOM_LOOKS, NvmlDriver
from tests.fakes.nvml.fixtures import read
from tests.fakes.nvml.state import FakeDriver

LOST, NOT_FOUND, UNKNOWN = 15, 28, 999


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
