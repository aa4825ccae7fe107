"""The fake driver behaves, through the real pynvml of both ends of the promised range, as a driver does."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.nvml import build, profile
from tests.fakes.nvml.client import PATIENCE_S, DriverClient
from tests.fakes.nvml.state import FakeDriver

OLDEST_BINDINGS = "12.535.161"

NOT_SUPPORTED, DRIVER_NOT_LOADED, TIMEOUT, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = 3, 9, 10, 12, 13
GPU_IS_LOST, LIB_RM_VERSION_MISMATCH, GPU_NOT_FOUND, UNKNOWN = 15, 18, 28, 999

Connect = Callable[[], DriverClient]


@pytest.fixture(scope="session")
def library() -> Path:
    return build.library()


@pytest.fixture(scope="session")
def oldest_bindings() -> Path:
    folder = build.CACHE / f"nvidia-ml-py-{OLDEST_BINDINGS}"
    if not (folder / "pynvml.py").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        done = subprocess.run(
            [*command, f"nvidia-ml-py=={OLDEST_BINDINGS}"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"nvidia-ml-py {OLDEST_BINDINGS} cannot be had: {done.stderr.strip()[-300:]}")
    return folder


@pytest.fixture
def driver(tmp_path: Path) -> FakeDriver:
    return FakeDriver(tmp_path / "state", host=tmp_path.name)


@pytest.fixture(params=["installed", OLDEST_BINDINGS])
def bindings(request: pytest.FixtureRequest) -> Path | None:
    if request.param == "installed":
        return None
    folder: Path = request.getfixturevalue("oldest_bindings")
    return folder


@pytest.fixture
def client(library: Path, driver: FakeDriver, bindings: Path | None) -> Iterator[DriverClient]:
    with DriverClient(library, driver.path, bindings=bindings) as asking:
        yield asking


def wait_until(is_so: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < ends_at, "it never came to pass"
        time.sleep(0.01)


@pytest.mark.parametrize("name", profile.names())
@pytest.mark.parametrize("load", ["idle", "loaded"])
def test_readings_are_those_of_the_profile(client: DriverClient, driver: FakeDriver, name: str, load: str) -> None:
    driver.add_gpu(name, load=load)
    kind = profile.read(name)
    expected = {**kind.driver, **kind.card, **kind.readings(load)}
    client.value("n.nvmlInit(); h = handle(0)")
    assert client.value("n.nvmlDeviceGetName(h)") == expected["name"]
    assert client.value("n.nvmlSystemGetDriverVersion()") == expected["driver"]
    assert client.value("n.nvmlSystemGetCudaDriverVersion()") == int(expected["cuda"])
    assert client.value("'%d.%d' % n.nvmlDeviceGetCudaComputeCapability(h)") == expected["compute_capability"]
    assert client.value("n.nvmlDeviceGetTemperature(h, 0)") == int(expected["temperature_c"])
    assert client.value("n.nvmlDeviceGetPowerUsage(h)") == int(expected["power_mw"])
    assert client.value("n.nvmlDeviceGetClockInfo(h, 2)") == int(expected["clock_memory_mhz"])
    assert client.value("n.nvmlDeviceGetMaxClockInfo(h, 1)") == int(expected["clock_sm_max_mhz"])
    assert client.value("n.nvmlDeviceGetPerformanceState(h)") == int(expected["performance_state"])
    assert client.value("n.nvmlDeviceGetUtilizationRates(h).gpu") == int(expected["utilization_gpu_percent"])
    assert client.value("n.nvmlDeviceGetCurrPcieLinkGeneration(h)") == int(expected["pcie_generation"])
    assert client.value("n.nvmlDeviceGetPciInfo(h).busId") == expected["pci_bus_id"]
    assert client.value("n.nvmlDeviceGetPciInfo(h).pciDeviceId") == int(expected["pci_device_id"], 16)
    assert client.value("n.nvmlDeviceGetMemoryInfo(h).total >> 20") == int(expected["memory_total_bytes"].split()[0])


def test_reserved_memory_counts_as_used_in_the_first_version_only(client: DriverClient, driver: FakeDriver) -> None:
    driver.add_gpu("rtx-4080-super")
    client.value("n.nvmlInit(); h = handle(0)")
    client.value("old, new = n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2)")
    assert client.value("new.used >> 20") == 596
    assert client.value("new.reserved >> 20") == 434
    assert client.value("old.used == new.used + new.reserved")
    assert client.value("old.free == new.free == new.total - new.reserved - new.used")


def test_geforce_lacks_what_geforce_lacks(client: DriverClient, driver: FakeDriver) -> None:
    driver.add_gpu("rtx-4080-super")
    client.value("n.nvmlInit(); h = handle(0)")
    for call in ("Serial", "EccMode", "RemappedRows", "MigMode", "RetiredPagesPendingStatus"):
        assert client.error(f"n.nvmlDeviceGet{call}(h)") == NOT_SUPPORTED
    assert client.error("n.nvmlDeviceGetNvLinkState(h, 0)") == NOT_SUPPORTED
    assert client.value("n.nvmlDeviceGetTemperatureThreshold(h, 1)") == 96
    assert client.value("n.nvmlDeviceGetFanSpeed(h)") == 0


def test_processes_are_listed_by_kind_and_may_hide_their_memory(client: DriverClient, driver: FakeDriver) -> None:
    slot = driver.add_gpu("rtx-2080-super", load="loaded")
    driver.set(slot, "process 7", "compute unavailable")
    client.value("n.nvmlInit(); h = handle(0)")
    compute = client.value("{p.pid: p.usedGpuMemory for p in n.nvmlDeviceGetComputeRunningProcesses(h)}")
    assert compute == {"28511": 230 << 20, "28512": 370 << 20, "7": None}
    graphics = client.value("sorted(p.pid for p in n.nvmlDeviceGetGraphicsRunningProcesses(h))")
    assert graphics == [1720, 4556]


def test_each_field_value_has_a_return_code_of_its_own(client: DriverClient, driver: FakeDriver) -> None:
    slot = driver.add_gpu("h100")
    driver.set(slot, "recovery_action", 2)
    driver.set(slot, "ecc_dram_uncorrected_volatile", 3)
    driver.set(slot, "ecc_sram_uncorrected_volatile", 1)
    driver.fail_field(82, UNKNOWN, slot=slot)
    client.value("n.nvmlInit(); h = handle(0)")
    client.value("got = n.nvmlDeviceGetFieldValues(h, [230, 82, 4, 29, 193])")
    assert client.value("[v.nvmlReturn for v in got]") == [0, UNKNOWN, 0, NOT_SUPPORTED, 0]
    assert client.value("[got[0].value.uiVal, got[2].value.ullVal, got[4].value.siVal]") == [2, 4, -8]


def test_a_field_that_the_card_is_said_to_lack_is_not_made_up(client: DriverClient, driver: FakeDriver) -> None:
    driver.add_gpu("rtx-2080-super")
    client.value("n.nvmlInit()")
    assert client.value("[v.nvmlReturn for v in n.nvmlDeviceGetFieldValues(handle(0), [185, 186])]") == [3, 0]


def test_ecc_totals_add_sram_and_dram(client: DriverClient, driver: FakeDriver) -> None:
    slot = driver.add_gpu("h200")
    driver.set(slot, "ecc_sram_corrected_aggregate", 10_001)
    driver.set(slot, "ecc_dram_corrected_aggregate", 20_000_001)
    client.value("n.nvmlInit(); h = handle(0)")
    assert client.value("n.nvmlDeviceGetTotalEccErrors(h, 0, 1)") == 20_010_002
    assert client.value("n.nvmlDeviceGetMemoryErrorCounter(h, 0, 1, n.NVML_MEMORY_LOCATION_SRAM)") == 10_001
    assert client.error("n.nvmlDeviceGetMemoryErrorCounter(h, 0, 1, n.NVML_MEMORY_LOCATION_L1_CACHE)") == NOT_SUPPORTED


def test_absurd_values_pass_unjudged(client: DriverClient, driver: FakeDriver) -> None:
    slot = driver.add_gpu("h100")
    driver.set(slot, "power_mw", 2**32 - 1)
    driver.set(slot, "memory_used_bytes", 2**64 - 1)
    driver.set(slot, "temperature_c", -40)
    client.value("n.nvmlInit(); h = handle(0)")
    assert client.value("n.nvmlDeviceGetPowerUsage(h)") == 2**32 - 1
    assert client.value("n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2).used") == 2**64 - 1
    assert client.value("n.nvmlDeviceGetTemperature(h, 0)") == 2**32 - 40


def test_a_running_process_sees_a_change_at_its_next_call(client: DriverClient, driver: FakeDriver) -> None:
    slot = driver.add_gpu("h100")
    client.value("n.nvmlInit(); h = handle(0)")
    for temperature in (41, 97, 5):
        driver.set(slot, "temperature_c", temperature)
        assert client.value("n.nvmlDeviceGetTemperature(h, 0)") == temperature


def test_a_lost_gpu_is_still_counted_and_fails_every_call(client: DriverClient, driver: FakeDriver) -> None:
    driver.add_gpu("h100")
    lost = driver.add_gpu("h100")
    client.value("n.nvmlInit(); h = handle(1)")
    driver.lose(lost)
    for call in ("Name(h)", "UUID(h)", "Temperature(h, 0)", "FieldValues(h, [230])", "ComputeRunningProcesses(h)"):
        assert client.error(f"n.nvmlDeviceGet{call}") == GPU_IS_LOST
    assert client.value("n.nvmlDeviceGetCount()") == 2
    assert client.value("n.nvmlDeviceGetTemperature(handle(0), 0)") == 41
    driver.clear_faults()
    assert client.value("n.nvmlDeviceGetTemperature(h, 0)") == 41


@pytest.mark.parametrize("code", [GPU_IS_LOST, GPU_NOT_FOUND, UNKNOWN])
def test_a_bad_gpu_fails_where_its_handle_is_asked_for(client: DriverClient, driver: FakeDriver, code: int) -> None:
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


def test_a_removed_gpu_moves_the_indices_but_not_the_handles(client: DriverClient, driver: FakeDriver) -> None:
    first, second = driver.add_gpu("h100"), driver.add_gpu("h200")
    client.value("n.nvmlInit(); gone, kept = handle(0), handle(1)")
    driver.remove_gpu(first)
    assert client.value("n.nvmlDeviceGetName(kept)") == "NVIDIA H200"
    assert client.value("n.nvmlDeviceGetIndex(kept)") == 0
    assert client.value("n.nvmlDeviceGetUUID(handle(0))") == driver.get(second, "uuid")
    assert client.error("n.nvmlDeviceGetName(gone)") == GPU_IS_LOST


def test_handles_are_found_by_uuid_and_by_bus_id_of_either_length(client: DriverClient, driver: FakeDriver) -> None:
    driver.add_gpu("h100")
    slot = driver.add_gpu("h100")
    client.value("n.nvmlInit()")
    for call, key in (("UUID", "uuid"), ("PciBusId", "pci_bus_id")):
        found = f"n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleBy{call}({driver.get(slot, key)!r}.encode()))"
        assert client.value(found) == 1
    assert client.value("n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(b'0000:01:09.0'))") == 1
    assert client.error("n.nvmlDeviceGetHandleByUUID(b'GPU-none')") == 6


@pytest.mark.parametrize("code", [LIB_RM_VERSION_MISMATCH, UNKNOWN])
def test_initialisation_fails_with_the_code_asked_for(client: DriverClient, driver: FakeDriver, code: int) -> None:
    driver.add_gpu()
    driver.fail_init(code)
    assert client.error("n.nvmlInit()") == code
    driver.clear_faults()
    assert client.value("n.nvmlInit()") is None


def test_without_the_file_the_driver_is_not_loaded_until_it_is(client: DriverClient, driver: FakeDriver) -> None:
    assert client.error("n.nvmlInit()") == DRIVER_NOT_LOADED
    driver.add_gpu()
    client.value("n.nvmlInit()")
    assert client.value("n.nvmlDeviceGetCount()") == 1


def test_without_the_library_pynvml_says_so(driver: FakeDriver, tmp_path: Path) -> None:
    driver.add_gpu()
    with DriverClient(tmp_path, driver.path) as client:
        if client.value("__import__('ctypes.util').util.find_library('nvidia-ml')"):
            pytest.skip("this machine has the real libnvidia-ml.so.1")
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


@pytest.mark.parametrize("call", ["nvmlInitWithFlags", "*"])
def test_a_hung_initialisation_ends_with_sigterm(client: DriverClient, driver: FakeDriver, call: str) -> None:
    driver.add_gpu()
    driver.hang(call)
    client.begin("n.nvmlInit()")
    assert not client.has_answer(0.5)
    client.process.terminate()
    assert client.process.wait(PATIENCE_S) == -signal.SIGTERM


def test_a_hard_hang_outlives_sigterm_and_obeys_it_afterwards(client: DriverClient, driver: FakeDriver) -> None:
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


def test_waiting_for_events_of_a_lost_gpu_says_so_after_its_last_xid(client: DriverClient, driver: FakeDriver) -> None:
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
    for wrong in ("gpu 0 temprature_c = 90", "gpu 0 temperature_c = warm", "fault call nvmlNoSuch = 9", "fault gpu 0"):
        driver.path.write_text(f"{driver.text()}{wrong}\n")
        with DriverClient(library, driver.path) as client:
            assert client.error("n.nvmlInit()") == UNKNOWN
            assert f"not understood: {wrong}" in client.end()
