"""What each of dcgm-exporter's series is, and which value of a reading it shows.

Names and units: NVIDIA/dcgm-exporter, ``etc/default-counters.csv``. The ``PROF_*`` ones are those of MIG
instances alone, which have no other utilisation; on a whole card their counters are left to whoever profiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gpumesh.health.devices import MigInstance, Reading

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_MAX_TEMPERATURE_C: Final = 200  # above: a sentinel, not a temperature; dcgm-exporter drops those too


@dataclass(frozen=True, slots=True)
class Series:
    """One family: its name behind ``DCGM_FI_DEV_``, and where its value is in a reading."""

    name: str
    type: str
    help: str
    value: Callable[[Reading], float | None]


@dataclass(frozen=True, slots=True)
class InstanceSeries:
    """One family of MIG instances alone: its name behind ``DCGM_FI_PROF_``, and its value, a ratio."""

    name: str
    help: str
    value: Callable[[MigInstance], float | None]


def _ratio(name: str) -> Callable[[MigInstance], float | None]:
    def read(instance: MigInstance) -> float | None:
        percent: float | None = getattr(instance, name)
        return None if percent is None else round(percent / 100, 4)

    return read


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


def _kib(name: str) -> Callable[[Reading], float | None]:
    def read(reading: Reading) -> float | None:
        value: int | None = getattr(reading, name)
        return None if value is None else value // _KIB

    return read


def _celsius(name: str) -> Callable[[Reading], float | None]:
    def read(reading: Reading) -> float | None:
        value: int | None = getattr(reading, name)
        return None if value is None or value > _MAX_TEMPERATURE_C else value

    return read


def _nvlink_kib(reading: Reading) -> float | None:
    parts = reading.nvlink_tx_kib, reading.nvlink_rx_kib
    return None if None in parts else sum(part or 0 for part in parts)


SERIES: Final = (
    Series("SM_CLOCK", "gauge", "SM clock in MHz.", _field("sm_clock_mhz")),
    Series("MEM_CLOCK", "gauge", "Memory clock in MHz.", _field("memory_clock_mhz")),
    Series("GPU_TEMP", "gauge", "GPU temperature in degrees Celsius.", _celsius("temperature_c")),
    Series(
        "MEMORY_TEMP", "gauge", "Memory temperature in degrees Celsius.", _celsius("temperature_memory_c")
    ),
    Series("POWER_USAGE", "gauge", "Power draw in watts.", _field("power_w")),
    Series("POWER_MGMT_LIMIT", "gauge", "Power limit in watts.", _field("power_limit_w")),
    Series(
        "TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "Energy in mJ since the driver was loaded.",
        _field("energy_mj"),
    ),
    Series("PCIE_REPLAY_COUNTER", "counter", "PCIe retries.", _field("pcie_replays")),
    Series("PCIE_LINK_GEN", "gauge", "PCIe generation of the link now.", _field("pcie_gen")),
    Series("PCIE_LINK_WIDTH", "gauge", "PCIe lanes of the link now.", _field("pcie_width")),
    Series("GPU_UTIL", "gauge", "GPU utilisation in percent.", _field("utilization_gpu_percent")),
    Series("MEM_COPY_UTIL", "gauge", "Memory utilisation in percent.", _field("utilization_memory_percent")),
    Series("ENC_UTIL", "gauge", "Encoder utilisation in percent.", _field("utilization_encoder_percent")),
    Series("DEC_UTIL", "gauge", "Decoder utilisation in percent.", _field("utilization_decoder_percent")),
    Series("FAN_SPEED", "gauge", "Fan speed in percent.", _field("fan_percent")),
    Series("FB_FREE", "gauge", "Free framebuffer in MiB.", _mib("memory_free_bytes")),
    Series("FB_USED", "gauge", "Used framebuffer in MiB.", _mib("memory_used_bytes")),
    Series("FB_RESERVED", "gauge", "Reserved framebuffer in MiB.", _mib("memory_reserved_bytes")),
    Series("BAR1_TOTAL", "gauge", "BAR1 window in MiB.", _mib("bar1_total_bytes")),
    Series("BAR1_USED", "gauge", "BAR1 window in use in MiB.", _mib("bar1_used_bytes")),
    Series("PCIE_TX_THROUGHPUT", "counter", "Sent over PCIe in KiB; it may wrap.", _kib("pcie_tx_bytes")),
    Series("PCIE_RX_THROUGHPUT", "counter", "Received over PCIe in KiB; it may wrap.", _kib("pcie_rx_bytes")),
    Series(
        "CLOCKS_EVENT_REASONS", "gauge", "Why clocks are held, a bit mask.", _field("clocks_event_reasons")
    ),
    Series("ECC_SBE_VOL_TOTAL", "counter", "Single-bit ECC errors, volatile.", _field("ecc_sbe_volatile")),
    Series("ECC_DBE_VOL_TOTAL", "counter", "Double-bit ECC errors, volatile.", _field("ecc_dbe_volatile")),
    Series("ECC_SBE_AGG_TOTAL", "counter", "Single-bit ECC errors, lifetime.", _field("ecc_sbe_aggregate")),
    Series("ECC_DBE_AGG_TOTAL", "counter", "Double-bit ECC errors, lifetime.", _field("ecc_dbe_aggregate")),
    *(
        Series(
            f"ECC_{kind}_{span}_{place}",
            "counter",
            f"{words} ECC errors in the {where}, {spanned}.",
            _field(f"ecc_{name}_{corrected}_{volatile}"),
        )
        for place, where, name in (("SRM", "caches", "sram"), ("DEV", "memory", "dram"))
        for span, spanned, volatile in (("VOL", "volatile", "volatile"), ("AGG", "lifetime", "aggregate"))
        for kind, words, corrected in (
            ("SBE", "Single-bit", "corrected"),
            ("DBE", "Double-bit", "uncorrected"),
        )
    ),
    Series(
        "THRESHOLD_SRM",
        "gauge",
        "Whether the caches had more errors than they may.",
        _field("ecc_sram_threshold_exceeded"),
    ),
    Series("RETIRED_SBE", "counter", "Pages retired for single-bit errors.", _field("retired_sbe")),
    Series("RETIRED_DBE", "counter", "Pages retired for double-bit errors.", _field("retired_dbe")),
    Series("RETIRED_PENDING", "counter", "Page retirement pending.", _field("retired_pending")),
    Series(
        "UNCORRECTABLE_REMAPPED_ROWS",
        "counter",
        "Rows remapped for uncorrectable errors.",
        _field("remapped_uncorrectable"),
    ),
    Series(
        "CORRECTABLE_REMAPPED_ROWS",
        "counter",
        "Rows remapped for correctable errors.",
        _field("remapped_correctable"),
    ),
    Series("ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed.", _field("remap_failed")),
    Series(
        "POWER_VIOLATION",
        "counter",
        "Time held down by the power limit, in ns.",
        _field("power_violation_ns"),
    ),
    Series("THERMAL_VIOLATION", "counter", "Time held down by heat, in ns.", _field("thermal_violation_ns")),
    Series(
        "SYNC_BOOST_VIOLATION",
        "counter",
        "Time held down to keep step with other cards, in ns.",
        _field("sync_boost_violation_ns"),
    ),
    Series(
        "BOARD_LIMIT_VIOLATION",
        "counter",
        "Time held down by the board's limit, in ns.",
        _field("board_limit_violation_ns"),
    ),
    Series(
        "LOW_UTIL_VIOLATION",
        "counter",
        "Time held down for want of work, in ns.",
        _field("low_utilization_violation_ns"),
    ),
    Series(
        "RELIABILITY_VIOLATION",
        "counter",
        "Time held down for the board's reliability, in ns.",
        _field("reliability_violation_ns"),
    ),
    Series("NVLINK_BANDWIDTH_TOTAL", "counter", "Payload over all NVLinks, in KiB.", _nvlink_kib),
    Series(
        "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        "counter",
        "NVLink flow-control CRC errors.",
        _field("nvlink_crc_flit_errors"),
    ),
    Series(
        "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
        "counter",
        "NVLink data CRC errors.",
        _field("nvlink_crc_data_errors"),
    ),
    Series("NVLINK_REPLAY_ERROR_COUNT_TOTAL", "counter", "NVLink replays.", _field("nvlink_replay_errors")),
    Series(
        "NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
        "counter",
        "NVLink recoveries.",
        _field("nvlink_recovery_errors"),
    ),
    Series("PSTATE", "gauge", "Performance state, 0 is the fastest.", _field("performance_state")),
    Series(
        "ENFORCED_POWER_LIMIT",
        "gauge",
        "Lowest of all power limits in watts.",
        _field("power_limit_enforced_w"),
    ),
)

INSTANCE_SERIES: Final = (
    InstanceSeries(
        "GR_ENGINE_ACTIVE",
        "Share of time in which anything ran on the instance.",
        _ratio("utilization_gpu_percent"),
    ),
    InstanceSeries(
        "SM_ACTIVE",
        "Share of the instance's multiprocessors that had work, on average.",
        _ratio("utilization_sm_percent"),
    ),
    InstanceSeries(
        "DRAM_ACTIVE",
        "Share of the memory's bandwidth that the instance used.",
        _ratio("utilization_memory_bandwidth_percent"),
    ),
)
