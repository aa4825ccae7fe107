"""What the fake driver reads, through the real pynvml of both ends of the promised range."""

from __future__ import annotations

import pytest

from tests.fakes.nvml import profile
from tests.fakes.nvml.client import DriverClient
from tests.fakes.nvml.state import FakeDriver

NOT_SUPPORTED, UNKNOWN = 3, 999
READ = (
    ("Name(h)", "name"),
    ("Temperature(h, 0)", "temperature_c"),
    ("PowerUsage(h)", "power_mw"),
    ("ClockInfo(h, 2)", "clock_memory_mhz"),
    ("MaxClockInfo(h, 1)", "clock_sm_max_mhz"),
    ("PerformanceState(h)", "performance_state"),
    ("PowerState(h)", "performance_state"),
    ("UtilizationRates(h).gpu", "utilization_gpu_percent"),
    ("CurrPcieLinkGeneration(h)", "pcie_generation"),
    ("MemoryInfo(h).total >> 20", "memory_total_bytes"),
    ("FanSpeed(h)", "fan_percent"),
    ("MigMode(h)[0]", "mig_mode"),
    ("RemappedRows(h)[0]", "remapped_rows_correctable"),
    ("VirtualizationMode(h)", "virtualization_mode"),
    ("MaxMigDeviceCount(h)", "mig_devices_max"),
)


@pytest.mark.parametrize("name", profile.names())
@pytest.mark.parametrize("load", ["idle", "loaded"])
def test_readings_are_those_of_the_profile(
    client: DriverClient, driver: FakeDriver, name: str, load: str
) -> None:
    driver.add_gpu(name, load=load)
    kind = profile.read(name)
    expected = {**kind.driver, **kind.card, **kind.readings(load)}
    client.value("n.nvmlInit(); h = handle(0)")
    assert client.value("n.nvmlSystemGetDriverVersion()") == expected["driver"]
    assert client.value("n.nvmlSystemGetCudaDriverVersion()") == int(expected["cuda"])
    for call, key in READ:
        asked = f"n.nvmlDeviceGet{call}"
        if key in expected:
            value = expected[key].removesuffix(" MiB")
            assert str(client.value(asked)) == str(int(value, 0) if value[:1].isdigit() else value), call
        else:
            assert client.error(asked) == NOT_SUPPORTED, call
    assert client.value("'%d.%d' % n.nvmlDeviceGetCudaComputeCapability(h)") == expected["compute_capability"]
    assert client.value("n.nvmlDeviceGetPciInfo(h).busId") == expected["pci_bus_id"]
    assert client.value("n.nvmlDeviceGetPciInfo(h).pciDeviceId") == int(expected["pci_device_id"], 16)


def test_reserved_memory_counts_as_used_in_the_first_version_only(
    client: DriverClient, driver: FakeDriver
) -> None:
    driver.set(driver.add_gpu("rtx-4080-super"), "memory_free_bytes", None)
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


def test_processes_are_listed_by_kind_and_may_hide_their_memory(
    client: DriverClient, driver: FakeDriver
) -> None:
    slot = driver.add_gpu("rtx-2080-super", load="loaded")
    driver.set(slot, "process 7", "compute unavailable")
    client.value("n.nvmlInit(); h = handle(0)")
    compute = client.value("{p.pid: p.usedGpuMemory for p in n.nvmlDeviceGetComputeRunningProcesses(h)}")
    assert compute == {"28511": 230 << 20, "28512": 370 << 20, "7": None}
    graphics = client.value("sorted(p.pid for p in n.nvmlDeviceGetGraphicsRunningProcesses(h))")
    assert graphics == [1720, 4556]


def test_a_carved_up_card_tells_instances_with_processes_and_an_instance_its_own(
    client: DriverClient, driver: FakeDriver
) -> None:
    slot = driver.add_gpu("h100-mig", load="loaded")
    driver.set(slot, "process 7", "compute 12 MiB in 9 0")
    client.value("n.nvmlInit(); h = handle(0)")
    listed = (
        "[[p.pid, p.gpuInstanceId, p.computeInstanceId] for p in n.nvmlDeviceGetComputeRunningProcesses({})]"
    )
    everyone = [[21180, 2, 0], [21181, 2, 0], [21198, 2, 0], [7, 9, 0]]
    assert sorted(client.value(listed.format("h"))) == sorted(everyone)
    third = "n.nvmlDeviceGetMigDeviceHandleByIndex(h, 2)"
    assert client.value(listed.format(third)) == [[7, 9, 0]]
    assert client.value("n.nvmlDeviceGetName(n.nvmlDeviceGetMigDeviceHandleByIndex(h, 0))") == (
        "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
    )
    assert client.error("n.nvmlDeviceGetUtilizationRates(h)") == NOT_SUPPORTED


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


def test_a_field_that_the_card_is_said_to_lack_is_not_made_up(
    client: DriverClient, driver: FakeDriver
) -> None:
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
    assert (
        client.error("n.nvmlDeviceGetMemoryErrorCounter(h, 0, 1, n.NVML_MEMORY_LOCATION_L1_CACHE)")
        == NOT_SUPPORTED
    )


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
