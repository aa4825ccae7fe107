"""How the fake driver fails, through the real pynvml of both ends of the promised range."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.nvml import build
from tests.fakes.nvml.client import PATIENCE_S, DriverClient
from tests.fakes.nvml.state import FakeDriver
from tests.requirements import lacks

NOT_FOUND, DRIVER_NOT_LOADED, TIMEOUT, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = 6, 9, 10, 12, 13
GPU_IS_LOST, LIB_RM_VERSION_MISMATCH, GPU_NOT_FOUND, UNKNOWN = 15, 18, 28, 999


def wait_until(is_so: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < ends_at, "it never came to pass"
        time.sleep(0.01)


def test_a_lost_gpu_is_still_counted_and_fails_every_call(client: DriverClient, driver: FakeDriver) -> None:
    driver.add_gpu("h100")
    lost = driver.add_gpu("h100")
    client.value("n.nvmlInit(); h = handle(1)")
    driver.lose(lost)
    for call in (
        "Name(h)",
        "UUID(h)",
        "Temperature(h, 0)",
        "FieldValues(h, [230])",
        "ComputeRunningProcesses(h)",
    ):
        assert client.error(f"n.nvmlDeviceGet{call}") == GPU_IS_LOST
    assert client.value("n.nvmlDeviceGetCount()") == 2
    assert client.value("n.nvmlDeviceGetTemperature(handle(0), 0)") == 41
    driver.clear_faults()
    assert client.value("n.nvmlDeviceGetTemperature(h, 0)") == 41


@pytest.mark.parametrize("code", [GPU_IS_LOST, GPU_NOT_FOUND, UNKNOWN])
def test_a_bad_gpu_fails_where_its_handle_is_asked_for(
    client: DriverClient, driver: FakeDriver, code: int
) -> None:
    driver.add_gpu("h100")
    bad = driver.add_gpu("h100")
    driver.fail_handle(bad, code)
    client.value("n.nvmlInit()")
    assert client.value("n.nvmlDeviceGetCount()") == 2
    assert client.error("handle(1)") == code
    assert client.value("n.nvmlDeviceGetIndex(handle(0))") == 0


def test_the_count_drops_under_a_running_process(client: DriverClient, driver: FakeDriver) -> None:
    for _ in range(3):
        driver.add_gpu("h200")
    client.value("n.nvmlInit()")
    assert client.value("n.nvmlDeviceGetCount()") == 3
    driver.limit_count(1)
    assert client.value("n.nvmlDeviceGetCount()") == 1
    assert client.error("handle(1)") == 2


def test_a_removed_gpu_moves_the_indices_but_not_the_handles(
    client: DriverClient, driver: FakeDriver
) -> None:
    first, second = driver.add_gpu("h100"), driver.add_gpu("h200")
    client.value("n.nvmlInit(); gone, kept = handle(0), handle(1)")
    driver.remove_gpu(first)
    assert client.value("n.nvmlDeviceGetName(kept)") == "NVIDIA H200"
    assert client.value("n.nvmlDeviceGetIndex(kept)") == 0
    assert client.value("n.nvmlDeviceGetUUID(handle(0))") == driver.get(second, "uuid")
    assert client.error("n.nvmlDeviceGetName(gone)") == GPU_IS_LOST


def test_instances_come_and_go_under_a_running_process(client: DriverClient, driver: FakeDriver) -> None:
    slot = driver.add_gpu("h100-mig")
    client.value("n.nvmlInit(); h = handle(0); third = n.nvmlDeviceGetMigDeviceHandleByIndex(h, 2)")
    assert client.value("n.nvmlDeviceGetMemoryInfo(third).used >> 20") == 9
    driver.set(slot, "mig 3", "1g.10gb 9 0 9984MiB 700MiB")
    assert client.value("n.nvmlDeviceGetMemoryInfo(third).used >> 20") == 700
    driver.set(slot, "mig 3", None)
    assert client.error("n.nvmlDeviceGetMemoryInfo(third)") == NOT_FOUND
    assert client.error("n.nvmlDeviceGetMigDeviceHandleByIndex(h, 2)") == NOT_FOUND
    driver.set(slot, "mig_mode", 0)
    assert client.error("n.nvmlDeviceGetMigDeviceHandleByIndex(h, 0)") == NOT_FOUND
    driver.lose(slot)
    assert client.error("n.nvmlDeviceGetMemoryInfo(third)") == GPU_IS_LOST


def test_handles_are_found_by_uuid_and_by_bus_id_of_either_length(
    client: DriverClient, driver: FakeDriver
) -> None:
    driver.add_gpu("h100")
    slot = driver.add_gpu("h100")
    client.value("n.nvmlInit()")
    for call, key in (("UUID", "uuid"), ("PciBusId", "pci_bus_id")):
        found = f"n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleBy{call}({driver.get(slot, key)!r}.encode()))"
        assert client.value(found) == 1
    assert client.value("n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(b'0000:01:09.0'))") == 1
    assert client.error("n.nvmlDeviceGetHandleByUUID(b'GPU-none')") == 6


@pytest.mark.parametrize("code", [DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, LIB_RM_VERSION_MISMATCH, UNKNOWN])
def test_initialisation_fails_with_the_code_asked_for(
    client: DriverClient, driver: FakeDriver, code: int
) -> None:
    driver.add_gpu()
    driver.fail_init(code)
    assert client.error("n.nvmlInit()") == code
    driver.clear_faults()
    assert client.value("n.nvmlInit()") is None


def test_without_the_file_the_driver_is_not_loaded_until_it_is(
    client: DriverClient, driver: FakeDriver
) -> None:
    assert client.error("n.nvmlInit()") == DRIVER_NOT_LOADED
    driver.add_gpu()
    client.value("n.nvmlInit()")
    assert client.value("n.nvmlDeviceGetCount()") == 1


def test_without_the_library_pynvml_says_so(driver: FakeDriver, tmp_path: Path) -> None:
    driver.add_gpu()
    with DriverClient(tmp_path, driver.path) as client:
        if client.value("__import__('ctypes.util').util.find_library('nvidia-ml')"):
            lacks("this machine has the real libnvidia-ml.so.1")
        assert client.error("n.nvmlInit()") == LIBRARY_NOT_FOUND


def test_calls_outside_init_and_shutdown_are_refused(client: DriverClient, driver: FakeDriver) -> None:
    driver.add_gpu()
    client.value("n.nvmlInit(); n.nvmlInit(); h = handle(0); n.nvmlShutdown()")
    assert client.value("n.nvmlDeviceGetTemperature(h, 0)") == 43
    client.value("n.nvmlShutdown()")
    assert client.error("n.nvmlDeviceGetTemperature(h, 0)") == 1


def test_one_call_fails_for_one_gpu_alone(client: DriverClient, driver: FakeDriver) -> None:
    driver.add_gpu("h100")
    driver.add_gpu("h100")
    driver.fail("nvmlDeviceGetPowerUsage", UNKNOWN, slot=1)
    client.value("n.nvmlInit()")
    assert client.value("n.nvmlDeviceGetPowerUsage(handle(0))") == 69850
    assert client.error("n.nvmlDeviceGetPowerUsage(handle(1))") == UNKNOWN
    assert client.value("n.nvmlDeviceGetTemperature(handle(1), 0)") == 41


def test_a_hung_call_returns_when_the_fault_is_cleared(client: DriverClient, driver: FakeDriver) -> None:
    driver.add_gpu()
    client.value("n.nvmlInit(); h = handle(0)")
    driver.hang("nvmlDeviceGetTemperature")
    client.begin("n.nvmlDeviceGetTemperature(h, 0)")
    assert not client.has_answer(0.5)
    driver.set(0, "temperature_c", 51)
    assert not client.has_answer(0.5)
    driver.clear_faults()
    assert client.finish() == {"value": 51}


@pytest.mark.parametrize("hang", [FakeDriver.hang_init, lambda driver: driver.hang("*")], ids=["init", "all"])
def test_a_hung_initialisation_ends_with_sigterm(
    client: DriverClient, driver: FakeDriver, hang: Callable[[FakeDriver], None]
) -> None:
    driver.add_gpu()
    hang(driver)
    client.begin("n.nvmlInit()")
    assert not client.has_answer(0.5)
    client.process.terminate()
    assert client.process.wait(PATIENCE_S) == -signal.SIGTERM


def test_a_hard_hang_outlives_sigterm_and_obeys_it_afterwards(
    client: DriverClient, driver: FakeDriver
) -> None:
    driver.add_gpu()
    client.value("n.nvmlInit(); h = handle(0)")
    driver.hang("nvmlDeviceGetPowerUsage", slot=0, hard=True)
    client.begin("n.nvmlDeviceGetPowerUsage(h)")
    wait_until(lambda: signal.SIGTERM in caught_signals(client.process.pid))
    client.process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        client.process.wait(0.5)
    driver.clear_faults()
    assert client.process.wait(PATIENCE_S) == -signal.SIGTERM


def caught_signals(pid: int) -> set[int]:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def test_latency_holds_each_call_back(client: DriverClient, driver: FakeDriver) -> None:
    driver.add_gpu()
    driver.delay("nvmlDeviceGetTemperature", 0.2)
    client.value("import time; n.nvmlInit(); h = handle(0); began_at = time.monotonic()")
    client.value("[n.nvmlDeviceGetTemperature(h, 0) for _ in range(2)]")
    assert client.value("time.monotonic() - began_at") >= 0.4


def test_an_xid_is_delivered_once_to_who_watched_before(client: DriverClient, driver: FakeDriver) -> None:
    driver.add_gpu("h100")
    slot = driver.add_gpu("h100")
    driver.xid(slot, 13)
    client.value("n.nvmlInit(); watched = n.nvmlEventSetCreate()")
    for index in (0, 1):
        client.value(f"n.nvmlDeviceRegisterEvents(handle({index}), n.nvmlEventTypeXidCriticalError, watched)")
    client.begin("e = n.nvmlEventSetWait(watched, 60_000)")
    driver.xid(slot, 79)
    driver.xid(0, 48)
    assert client.finish() == {"value": None}
    assert client.value("[e.eventType, e.eventData]") == [8, 79]
    assert client.value("n.nvmlDeviceGetUUID(e.device)") == driver.get(slot, "uuid")
    assert client.value("n.nvmlEventSetWait(watched, 0).eventData") == 48
    assert client.error("n.nvmlEventSetWait(watched, 50)") == TIMEOUT


def test_waiting_for_events_of_a_lost_gpu_says_so_after_its_last_xid(
    client: DriverClient, driver: FakeDriver
) -> None:
    slot = driver.add_gpu("h100")
    client.value("n.nvmlInit(); watched = n.nvmlEventSetCreate()")
    client.value("n.nvmlDeviceRegisterEvents(handle(0), n.nvmlEventTypeXidCriticalError, watched)")
    driver.xid(slot, 79)
    driver.lose(slot)
    assert client.value("n.nvmlEventSetWait(watched, 60_000).eventData") == 79
    assert client.error("n.nvmlEventSetWait(watched, 60_000)") == GPU_IS_LOST


def test_a_symbol_that_an_old_driver_lacks_is_truly_absent(driver: FakeDriver, bindings: Path | None) -> None:
    driver.add_gpu()
    old = build.library(missing=build.DRIVER_470_LACKS)
    with DriverClient(old, driver.path, bindings=bindings) as client:
        client.value("n.nvmlInit(); h = handle(0)")
        assert client.error("n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2)") == FUNCTION_NOT_FOUND
        assert client.error("n.nvmlDeviceGetCurrentClocksEventReasons(h)") == FUNCTION_NOT_FOUND
        assert client.value("n.nvmlDeviceGetCurrentClocksThrottleReasons(h)") == 1
        assert client.value("n.nvmlDeviceGetMemoryInfo(h).total >> 20") == 16376


def test_a_line_not_understood_is_named_and_breaks_the_driver(library: Path, driver: FakeDriver) -> None:
    driver.add_gpu()
    for wrong in (
        "gpu 0 temprature_c = 90",
        "gpu 0 temperature_c = warm",
        "fault call nvmlNoSuch = 9",
        "fault gpu 0",
    ):
        driver.path.write_text(f"{driver.text()}{wrong}\n")
        with DriverClient(library, driver.path) as client:
            assert client.error("n.nvmlInit()") == UNKNOWN
            assert f"not understood: {wrong}" in client.end()
