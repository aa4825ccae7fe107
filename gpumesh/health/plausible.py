"""Absurd values die here: what no card can mean is absent, and counted.

Drivers answer with all bits set, with a sensor's power-on value or with a torn counter, and a check that
believes it would drain a host for nothing. A value outside its bounds is left out, never clipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from gpumesh.health.devices import DeviceInfo, MigInstance, Reading

_Value = TypeVar("_Value", DeviceInfo, Reading, MigInstance)

_TEMPERATURE_C: Final = (-50, 200)
"""dcgm-exporter drops above 200; below -50 no silicon is specified to run."""
_PERCENT: Final = (0, 100)
_FAN_PERCENT: Final = (0, 200)
"""NVML says of the fan that it can pass 100 % of the product's noise limit."""
_POWER_W: Final = (0, 5_000)
_CLOCK_MHZ: Final = (0, 50_000)
_COUNT: Final = (0, (1 << 63) - 1)
_BANKS: Final = (0, 1 << 20)
_BYTES: Final = (0, 1 << 46)
_BOUNDS: Final[dict[str, tuple[int, int]]] = {
    "temperature_c": _TEMPERATURE_C,
    "temperature_memory_c": _TEMPERATURE_C,
    "temperature_slowdown_c": _TEMPERATURE_C,
    "temperature_shutdown_c": _TEMPERATURE_C,
    "temperature_max_c": _TEMPERATURE_C,
    "temperature_memory_max_c": _TEMPERATURE_C,
    "temperature_margin_c": _TEMPERATURE_C,
    "temperature_slowdown_margin_c": _TEMPERATURE_C,
    "fan_percent": _FAN_PERCENT,
    "power_w": _POWER_W,
    "power_limit_w": _POWER_W,
    "power_limit_default_w": _POWER_W,
    "power_limit_min_w": _POWER_W,
    "power_limit_enforced_w": _POWER_W,
    "power_instant_w": _POWER_W,
    "power_limit_max_w": _POWER_W,
    "energy_mj": _COUNT,
    "utilization_gpu_percent": _PERCENT,
    "utilization_memory_percent": _PERCENT,
    "utilization_sm_percent": _PERCENT,
    "utilization_memory_bandwidth_percent": _PERCENT,
    "utilization_encoder_percent": _PERCENT,
    "utilization_decoder_percent": _PERCENT,
    "utilization_jpeg_percent": _PERCENT,
    "utilization_ofa_percent": _PERCENT,
    "bar1_total_bytes": _BYTES,
    "bar1_used_bytes": _BYTES,
    "memory_total_bytes": (1, _BYTES[1]),
    "memory_used_bytes": _BYTES,
    "memory_free_bytes": _BYTES,
    "memory_reserved_bytes": _BYTES,
    "sm_clock_mhz": _CLOCK_MHZ,
    "memory_clock_mhz": _CLOCK_MHZ,
    "graphics_clock_mhz": _CLOCK_MHZ,
    "video_clock_mhz": _CLOCK_MHZ,
    "sm_clock_max_mhz": _CLOCK_MHZ,
    "memory_clock_max_mhz": _CLOCK_MHZ,
    "performance_state": (0, 15),
    "clocks_event_reasons": (0, (1 << 64) - 1),
    "pcie_gen": (1, 8),
    "pcie_gen_max": (1, 8),
    "pcie_gen_card_max": (1, 8),
    "pcie_gen_host_max": (1, 8),
    "pcie_width": (1, 32),
    "pcie_width_max": (1, 32),
    "pcie_width_host_max": (1, 32),
    "minor": (0, 1 << 20),
    "recovery_action": (0, 63),
    "compute_mode": (0, 15),
    "virtualization": (0, 15),
    "addressing_mode": (0, 15),
    "fabric_state": (0, 15),
    "fabric_status": (0, 999),
    "fabric_clique": (0, (1 << 32) - 1),
    "num_nvlinks": (0, 64),
    "num_mig_instances_max": (0, 64),
    "num_multiprocessors": (1, 4096),
    **dict.fromkeys((f"remap_banks_{name}" for name in ("max", "high", "partial", "low", "none")), _BANKS),
    **dict.fromkeys(
        (
            "pcie_replays",
            "pcie_replay_rollovers",
            "pcie_tx_bytes",
            "pcie_rx_bytes",
            "nvlink_tx_kib",
            "nvlink_rx_kib",
            "nvlink_crc_flit_errors",
            "nvlink_crc_data_errors",
            "nvlink_replay_errors",
            "nvlink_recovery_errors",
            "power_violation_ns",
            "thermal_violation_ns",
            "sync_boost_violation_ns",
            "board_limit_violation_ns",
            "low_utilization_violation_ns",
            "reliability_violation_ns",
            "slowdown_software_thermal_ns",
            "slowdown_hardware_thermal_ns",
            "slowdown_power_brake_ns",
            "ecc_sbe_volatile",
            "ecc_dbe_volatile",
            "ecc_sbe_aggregate",
            "ecc_dbe_aggregate",
            "ecc_sram_corrected_volatile",
            "ecc_sram_uncorrected_volatile",
            "ecc_sram_corrected_aggregate",
            "ecc_sram_uncorrected_aggregate",
            "ecc_dram_corrected_volatile",
            "ecc_dram_uncorrected_volatile",
            "ecc_dram_corrected_aggregate",
            "ecc_dram_uncorrected_aggregate",
            "retired_sbe",
            "retired_dbe",
            "remapped_correctable",
            "remapped_uncorrectable",
        ),
        _COUNT,
    ),
}
_MEMORY: Final = ("memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes")


def keep_plausible(value: _Value) -> tuple[_Value, int]:
    """Return ``value`` without what no card can mean, and how many values were left out."""
    absurd = [
        item.name
        for item in fields(value)
        if item.name in _BOUNDS and _is_outside(getattr(value, item.name), *_BOUNDS[item.name])
    ]
    return _without(value, absurd)


def keep_plausible_memory(reading: Reading, total_bytes: int | None) -> tuple[Reading, int]:
    """Return ``reading`` without the memory values that exceed the card's memory, and how many those were.

    A process's memory is among them: the process stays, and how much it holds is not known.
    """
    if total_bytes is None:
        return reading, 0
    absurd = [name for name in _MEMORY if _is_outside(getattr(reading, name), 0, total_bytes)]
    kept, num_dropped = _without(reading, absurd)
    held = [_is_outside(process.memory_bytes, 0, total_bytes) for process in kept.processes or ()]
    if kept.processes is None or not any(held):
        return kept, num_dropped
    processes = tuple(
        replace(process, memory_bytes=None) if is_absurd else process
        for process, is_absurd in zip(kept.processes, held, strict=True)
    )
    return replace(kept, processes=processes), num_dropped + sum(held)


def _is_outside(value: float | None, low: int, high: int) -> bool:
    return value is not None and not low <= value <= high


def _without(value: _Value, names: Iterable[str]) -> tuple[_Value, int]:
    absent: dict[str, Any] = dict.fromkeys(names)
    return (replace(value, **absent) if absent else value), len(absent)
