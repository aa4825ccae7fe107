"""Healthy cards, hosts and probes as the captures show them; a test changes the one thing it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpumesh.config import Config
from gpumesh.health.baseline import BaselineRules
from gpumesh.health.devices import DeviceInfo, DeviceState, DriverInfo, Probe, Process, Reading
from gpumesh.health.engine import Health
from gpumesh.health.hostprobe import HostProbe
from gpumesh.health.inventory import Inventory
from gpumesh.model import Finding, Gpu, HealthReport

MIB = 1 << 20
UNIX = 1_800_000_000.0
DRIVER = DriverInfo(driver_version="535.183.01", library_version="535.183.01", cuda_version="12.2")
HOST = HostProbe(
    kernel="6.1.0-18-amd64",
    os="Debian GNU/Linux 12 (bookworm)",
    toolkit_version="1.14.6",
    is_nouveau_loaded=False,
    is_clock_synchronised=True,
)


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-0000-4000-8000-000000000000"


def address(number: int) -> str:
    return f"00000000:{number + 1:02X}:00.0"


def geforce(number: int = 0, **changes: Any) -> DeviceState:
    """An RTX 4080 SUPER at rest; ``changes`` go to its reading or, by name, to its info."""
    info = DeviceInfo(
        index=number,
        uuid=uuid(number),
        name="NVIDIA GeForce RTX 4080 SUPER",
        pci_bus_id=address(number),
        capability="8.9",
        memory_total_bytes=16376 * MIB,
        temperature_slowdown_c=96,
        temperature_shutdown_c=101,
        temperature_max_c=90,
        pcie_gen_max=4,
        pcie_width_max=16,
    )
    reading = Reading(
        temperature_c=43,
        fan_percent=0,
        power_w=25.9,
        utilization_gpu_percent=0,
        memory_used_bytes=596 * MIB,
        memory_free_bytes=15780 * MIB,
        performance_state=8,
        clocks_event_reasons=0x1,
        pcie_gen=1,
        pcie_width=16,
        recovery_action=0,
        persistence=False,
        processes=(),
    )
    return _changed(DeviceState(index=number, info=info, reading=reading), changes)


def h100(number: int = 0, **changes: Any) -> DeviceState:
    """An H100 80GB HBM3 at rest: no fan, no limits in degrees, with ECC and row remapping."""
    info = DeviceInfo(
        index=number,
        uuid=uuid(number),
        name="NVIDIA H100 80GB HBM3",
        pci_bus_id=address(number),
        capability="9.0",
        memory_total_bytes=81559 * MIB,
        temperature_memory_max_c=95,
        pcie_gen_max=5,
        pcie_width_max=16,
    )
    reading = Reading(
        temperature_c=41,
        temperature_memory_c=48,
        power_w=69.8,
        utilization_gpu_percent=0,
        memory_free_bytes=81000 * MIB,
        performance_state=0,
        clocks_event_reasons=0x1,
        pcie_gen=5,
        pcie_width=16,
        ecc_dbe_volatile=0,
        remapped_correctable=0,
        remapped_uncorrectable=0,
        remap_pending=False,
        remap_failed=False,
        recovery_action=0,
        persistence=True,
        processes=(),
    )
    return _changed(DeviceState(index=number, info=info, reading=reading), changes)


def _changed(state: DeviceState, changes: dict[str, Any]) -> DeviceState:
    assert state.info is not None
    assert state.reading is not None
    of_info = {key: value for key, value in changes.items() if key in DeviceInfo.__dataclass_fields__}
    of_reading = {key: value for key, value in changes.items() if key not in of_info}
    return replace(state, info=replace(state.info, **of_info), reading=replace(state.reading, **of_reading))


def lost(number: int, *, is_named: bool = True) -> DeviceState:
    """A card whose handle answers that it is lost."""
    info = geforce(number).info if is_named else None
    return DeviceState(
        index=number, info=info, reading=None, error="GPU is lost (NVML 15)", error_code=15, is_lost=True
    )


def answered(devices: Sequence[DeviceState], **changes: Any) -> Probe:
    """A probe that the driver answered in full."""
    given: dict[str, Any] = {
        "driver": DRIVER,
        "devices": tuple(devices),
        "num_devices": len(devices),
        "duration_s": 0.02,
        "pci_addresses": tuple(state.info.pci_bus_id for state in devices if state.info),
    }
    return Probe(**(given | changes))


def absent(code: int | None, error: str = "", **changes: Any) -> Probe:
    """A probe without a driver."""
    return Probe(driver=None, error=error or f"NVML {code}", error_code=code, **changes)


def hung(devices: Sequence[DeviceState] = (), call: str = "nvmlDeviceGetTemperature") -> Probe:
    """A probe that ran into its deadline after the given cards had answered."""
    driver = DRIVER if devices else None
    return Probe(
        driver=driver, devices=tuple(devices), error="no answer", is_hung=True, call=call, hung_for_s=5.0
    )


def busy(pid: int = 4242, kind: str = "compute", name: str | None = "/usr/bin/python3") -> Process:
    return Process(pid=pid, kind=kind, memory_bytes=512 * MIB, name=name)


class Course:
    """A Health fed every five seconds, with the clock kept for the test."""

    def __init__(
        self,
        config: Config | None = None,
        *,
        inventory: Inventory | None = None,
        baseline: BaselineRules | None = None,
        host: HostProbe = HOST,
        interval_s: float = 5.0,
    ) -> None:
        self.health = Health(config or Config(), inventory=inventory, baseline=baseline)
        self.host = host
        self.interval_s = interval_s
        self.now = 100.0

    def look(self, probe: Probe, times: int = 1) -> HealthReport:
        """Feed ``probe`` that many times and return the last report."""
        report = self.health.report
        for _ in range(times):
            report = self.health.handle_probe(probe, self.host, self.now, UNIX + self.now)
            self.now += self.interval_s
        return report

    def look_for(self, probe: Probe, seconds: float) -> HealthReport:
        """Feed ``probe`` until that many seconds have passed since its first look."""
        return self.look(probe, int(seconds / self.interval_s) + 1)


def codes(found: Gpu | HealthReport) -> list[str]:
    """Return ``check/code`` of the findings."""
    return [f"{finding.check}/{finding.evidence['code']}" for finding in found.findings]


def only(found: Gpu | HealthReport) -> Finding:
    (finding,) = found.findings
    return finding
