"""This host's readings under dcgm-exporter's names, types and labels, so that its dashboards work.

Names and units: NVIDIA/dcgm-exporter, ``etc/default-counters.csv``. A value that the card cannot say is left
out, and a card that is lost or failing has no series at all (NVIDIA/gpu-monitoring-tools#188): the last good
value of a dead card must not live on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gpumesh.health.devices import DeviceInfo, Probe, Reading
from gpumesh.model import HealthReport
from gpumesh.status.exposition import Family, Labels

_MIB: Final = 1 << 20
_MAX_TEMPERATURE_C: Final = 200  # above: a sentinel, not a temperature; dcgm-exporter drops those too


@dataclass(frozen=True, slots=True)
class _Series:
    name: str
    type: str
    help: str
    value: Callable[[Reading], float | None]


def _field(name: str) -> Callable[[Reading], float | None]:
    def read(reading: Reading) -> float | None:
        value: float | None = getattr(reading, name)
        return value

    return read


def _mib(name: str) -> Callable[[Reading], float | None]:
    def read(reading: Reading) -> float | None:
        value: int | None = getattr(reading, name)
        return None if value is None else value // _MIB

    return read


def _celsius(name: str) -> Callable[[Reading], float | None]:
    def read(reading: Reading) -> float | None:
        value: int | None = getattr(reading, name)
        return None if value is None or value > _MAX_TEMPERATURE_C else value

    return read


_SERIES: Final = (
    _Series("SM_CLOCK", "gauge", "SM clock in MHz.", _field("sm_clock_mhz")),
    _Series("MEM_CLOCK", "gauge", "Memory clock in MHz.", _field("memory_clock_mhz")),
    _Series("GPU_TEMP", "gauge", "GPU temperature in degrees Celsius.", _celsius("temperature_c")),
    _Series(
        "MEMORY_TEMP", "gauge", "Memory temperature in degrees Celsius.", _celsius("temperature_memory_c")
    ),
    _Series("POWER_USAGE", "gauge", "Power draw in watts.", _field("power_w")),
    _Series("POWER_MGMT_LIMIT", "gauge", "Power limit in watts.", _field("power_limit_w")),
    _Series(
        "TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "Energy in mJ since the driver was loaded.",
        _field("energy_mj"),
    ),
    _Series("PCIE_REPLAY_COUNTER", "counter", "PCIe retries.", _field("pcie_replays")),
    _Series("PCIE_LINK_GEN", "gauge", "PCIe generation of the link now.", _field("pcie_gen")),
    _Series("PCIE_LINK_WIDTH", "gauge", "PCIe lanes of the link now.", _field("pcie_width")),
    _Series("GPU_UTIL", "gauge", "GPU utilisation in percent.", _field("utilization_gpu_percent")),
    _Series("MEM_COPY_UTIL", "gauge", "Memory utilisation in percent.", _field("utilization_memory_percent")),
    _Series("ENC_UTIL", "gauge", "Encoder utilisation in percent.", _field("utilization_encoder_percent")),
    _Series("DEC_UTIL", "gauge", "Decoder utilisation in percent.", _field("utilization_decoder_percent")),
    _Series("FAN_SPEED", "gauge", "Fan speed in percent.", _field("fan_percent")),
    _Series("FB_FREE", "gauge", "Free framebuffer in MiB.", _mib("memory_free_bytes")),
    _Series("FB_USED", "gauge", "Used framebuffer in MiB.", _mib("memory_used_bytes")),
    _Series("FB_RESERVED", "gauge", "Reserved framebuffer in MiB.", _mib("memory_reserved_bytes")),
    _Series(
        "CLOCKS_EVENT_REASONS", "gauge", "Why clocks are held, a bit mask.", _field("clocks_event_reasons")
    ),
    _Series("ECC_SBE_VOL_TOTAL", "counter", "Single-bit ECC errors, volatile.", _field("ecc_sbe_volatile")),
    _Series("ECC_DBE_VOL_TOTAL", "counter", "Double-bit ECC errors, volatile.", _field("ecc_dbe_volatile")),
    _Series("ECC_SBE_AGG_TOTAL", "counter", "Single-bit ECC errors, lifetime.", _field("ecc_sbe_aggregate")),
    _Series("ECC_DBE_AGG_TOTAL", "counter", "Double-bit ECC errors, lifetime.", _field("ecc_dbe_aggregate")),
    _Series("RETIRED_SBE", "counter", "Pages retired for single-bit errors.", _field("retired_sbe")),
    _Series("RETIRED_DBE", "counter", "Pages retired for double-bit errors.", _field("retired_dbe")),
    _Series("RETIRED_PENDING", "counter", "Page retirement pending.", _field("retired_pending")),
    _Series(
        "UNCORRECTABLE_REMAPPED_ROWS",
        "counter",
        "Rows remapped for uncorrectable errors.",
        _field("remapped_uncorrectable"),
    ),
    _Series(
        "CORRECTABLE_REMAPPED_ROWS",
        "counter",
        "Rows remapped for correctable errors.",
        _field("remapped_correctable"),
    ),
    _Series("ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed.", _field("remap_failed")),
)


def dcgm_families(probe: Probe | None, report: HealthReport | None, hostname: str) -> list[Family]:
    """Return the ``DCGM_FI_DEV_*`` families of one probe; none while no driver answers."""
    families = [Family(f"DCGM_FI_DEV_{item.name}", item.type, item.help) for item in _SERIES]
    xids = Family(
        "DCGM_FI_DEV_XID_ERRORS", "gauge", "Last Xid that still matters; gone once the card is well again."
    )
    if probe is None or probe.is_hung or probe.driver is None:
        return []
    driver_version = probe.driver.driver_version or ""
    last_xids = _last_xids(probe, report)
    for device in probe.devices:
        if device.info is None:
            continue
        labels = _device_labels(device.info, hostname, driver_version)
        # A card that is lost has no readings, but why it is lost is what people look for then.
        xids.add(last_xids.get(device.info.uuid), labels)
        if device.reading is None or device.is_lost:
            continue
        # An error beside a reading means that one call failed: only that value is absent.
        for item, family in zip(_SERIES, families, strict=True):
            family.add(item.value(device.reading), labels)
    return [*families, xids]


def _device_labels(info: DeviceInfo, hostname: str, driver_version: str) -> Labels:
    return (
        ("gpu", str(info.index)),
        ("UUID", info.uuid),
        ("pci_bus_id", info.pci_bus_id),
        ("device", f"nvidia{info.index if info.minor is None else info.minor}"),
        ("modelName", info.name),
        ("Hostname", hostname),
        ("DCGM_FI_DRIVER_VERSION", driver_version),
    )


def _last_xids(probe: Probe, report: HealthReport | None) -> dict[str, float]:
    """Return the newest Xid of each card among those that stand as findings, by UUID."""
    seen = {(item.uuid, item.xid): item.last_unix for item in probe.xids}
    newest: dict[str, tuple[float, float]] = {}
    for gpu in report.gpus if report else ():
        for finding in gpu.findings:
            xid = finding.evidence.get("xid")
            if finding.check == "xid" and isinstance(xid, int):
                last = seen.get((gpu.uuid, xid), finding.since), float(xid)
                newest[gpu.uuid] = max(newest.get(gpu.uuid, last), last)
    return {uuid: xid for uuid, (_, xid) in newest.items()}
