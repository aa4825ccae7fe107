"""Which line of ``nvidia-smi -q`` is which value of gpumesh, and what is made of it.

Names are those of ``device`` and ``reading`` in ``/v1/status``. A value may have had several places over the
years of nvidia-smi; the first one that is available counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from tests.captures.smi import Block, Route, Smi, SmiGpu

MIB = 1 << 20
Value = float | int | bool | str
Convert = Callable[[str], Value]


def number(text: str) -> int | float:
    """``345 MHz``, ``16x``, ``P8``, ``38.89 W``, ``640 bank(s)``."""
    found = re.search(r"-?\d+(\.\d+)?", text)
    assert found is not None, text
    return float(found[0]) if "." in found[0] else int(found[0])


def mib(text: str) -> int:
    return int(number(text)) * MIB


def from_micro(text: str) -> int:
    """Nanoseconds out of microseconds."""
    return int(number(text)) * 1000


def yes(text: str) -> bool:
    assert text in {"Yes", "No", "Enabled", "Disabled"}, text
    return text in {"Yes", "Enabled"}


def one_of(*words: str, first: int = 0) -> Convert:
    """NVML's number of a word: its place among these."""
    return lambda text: first + words.index(text)


_TEMPERATURE, _POWER, _LINK = "Temperature", "GPU Power Readings", ("PCI", "GPU Link Info")
_CEILING, _OLD_POWER = "GPU Ceiling Power Limit", "Power Readings"
_REMAPPED, _BANKS = "Remapped Rows", "Bank Remap Availability Histogram"
_COUNTERS = "Clocks Event Reasons Counters"

DEVICE: Mapping[str, tuple[Convert, tuple[Route, ...]]] = {
    "minor": (number, (("Minor Number",),)),
    "vbios": (str, (("VBIOS Version",),)),
    "memory_total_bytes": (mib, (("FB Memory Usage", "Total"),)),
    "power_limit_default_w": (
        number,
        ((_POWER, "Default Power Limit"), (_POWER, _CEILING, "Default Power Limit")),
    ),
    "power_limit_min_w": (number, ((_POWER, "Min Power Limit"), (_OLD_POWER, "Min Power Limit"))),
    "power_limit_max_w": (number, ((_POWER, "Max Power Limit"), (_OLD_POWER, "Max Power Limit"))),
    "temperature_slowdown_c": (number, ((_TEMPERATURE, "GPU Slowdown Temp"),)),
    "temperature_shutdown_c": (number, ((_TEMPERATURE, "GPU Shutdown Temp"),)),
    "temperature_max_c": (number, ((_TEMPERATURE, "GPU Max Operating Temp"),)),
    "temperature_memory_max_c": (number, ((_TEMPERATURE, "Memory Max Operating Temp"),)),
    "temperature_slowdown_margin_c": (number, ((_TEMPERATURE, "GPU Slowdown T.Limit Temp"),)),
    "pcie_gen_max": (number, ((*_LINK, "PCIe Generation", "Max"),)),
    "pcie_gen_card_max": (number, ((*_LINK, "PCIe Generation", "Device Max"),)),
    "pcie_width_max": (number, ((*_LINK, "Link Width", "Max"),)),
    "sm_clock_max_mhz": (number, (("Max Clocks", "SM"),)),
    "memory_clock_max_mhz": (number, (("Max Clocks", "Memory"),)),
    "virtualization": (
        one_of("None", "Pass-Through", "VGPU", "Host VGPU", "Host VSGA"),
        (("GPU Virtualization Mode", "Virtualization Mode"),),
    ),
}
"""What does not change."""

READING: Mapping[str, tuple[Convert, tuple[Route, ...]]] = {
    "temperature_c": (number, ((_TEMPERATURE, "GPU Current Temp"),)),
    "temperature_memory_c": (number, ((_TEMPERATURE, "Memory Current Temp"),)),
    "temperature_margin_c": (
        number,
        ((_TEMPERATURE, "GPU T.Limit Temp"), (_TEMPERATURE, "GPU Current T.Limit Temp")),
    ),
    "fan_percent": (number, (("Fan Speed",),)),
    "power_w": (
        number,
        (
            (_POWER, "Average Power Draw"),
            (_POWER, "Power Draw"),
            (_POWER, "Instantaneous Power Draw"),
            (_OLD_POWER, "Power Draw"),
        ),
    ),
    "power_instant_w": (number, ((_POWER, "Instantaneous Power Draw"),)),
    "power_limit_w": (
        number,
        (
            (_POWER, "Requested Power Limit"),
            (_POWER, _CEILING, "Requested Power Limit"),
            (_OLD_POWER, "Power Limit"),
        ),
    ),
    "power_limit_enforced_w": (
        number,
        (
            (_POWER, "Current Power Limit"),
            (_POWER, _CEILING, "Current Power Limit"),
            (_OLD_POWER, "Enforced Power Limit"),
        ),
    ),
    "utilization_gpu_percent": (number, (("Utilization", "GPU"), ("Utilization", "Gpu"))),
    "utilization_memory_percent": (number, (("Utilization", "Memory"),)),
    "utilization_encoder_percent": (number, (("Utilization", "Encoder"),)),
    "utilization_decoder_percent": (number, (("Utilization", "Decoder"),)),
    "utilization_jpeg_percent": (number, (("Utilization", "JPEG"),)),
    "utilization_ofa_percent": (number, (("Utilization", "OFA"),)),
    "memory_used_bytes": (mib, (("FB Memory Usage", "Used"),)),
    "memory_free_bytes": (mib, (("FB Memory Usage", "Free"),)),
    "memory_reserved_bytes": (mib, (("FB Memory Usage", "Reserved"),)),
    "bar1_total_bytes": (mib, (("BAR1 Memory Usage", "Total"),)),
    "bar1_used_bytes": (mib, (("BAR1 Memory Usage", "Used"),)),
    "sm_clock_mhz": (number, (("Clocks", "SM"),)),
    "memory_clock_mhz": (number, (("Clocks", "Memory"),)),
    "graphics_clock_mhz": (number, (("Clocks", "Graphics"),)),
    "video_clock_mhz": (number, (("Clocks", "Video"),)),
    "performance_state": (number, (("Performance State",),)),
    "power_violation_ns": (from_micro, ((_COUNTERS, "SW Power Capping"),)),
    "sync_boost_violation_ns": (from_micro, ((_COUNTERS, "Sync Boost"),)),
    "slowdown_software_thermal_ns": (from_micro, ((_COUNTERS, "SW Thermal Slowdown"),)),
    "slowdown_hardware_thermal_ns": (from_micro, ((_COUNTERS, "HW Thermal Slowdown"),)),
    "slowdown_power_brake_ns": (from_micro, ((_COUNTERS, "HW Power Braking"),)),
    "pcie_gen": (number, ((*_LINK, "PCIe Generation", "Current"),)),
    "pcie_width": (number, ((*_LINK, "Link Width", "Current"),)),
    "pcie_replays": (number, (("PCI", "Replays Since Reset"),)),
    "pcie_replay_rollovers": (number, (("PCI", "Replay Number Rollovers"),)),
    "ecc_enabled": (yes, (("ECC Mode", "Current"),)),
    "ecc_enabled_pending": (yes, (("ECC Mode", "Pending"),)),
    "ecc_sram_threshold_exceeded": (yes, (("ECC Errors", "Aggregate", "SRAM Threshold Exceeded"),)),
    "retired_sbe": (number, (("Retired Pages", "Single Bit ECC"),)),
    "retired_dbe": (number, (("Retired Pages", "Double Bit ECC"),)),
    "retired_pending": (yes, (("Retired Pages", "Pending Page Blacklist"),)),
    "remapped_correctable": (number, ((_REMAPPED, "Correctable Error"),)),
    "remapped_uncorrectable": (number, ((_REMAPPED, "Uncorrectable Error"),)),
    "remap_pending": (yes, ((_REMAPPED, "Pending"),)),
    "remap_failed": (yes, ((_REMAPPED, "Remapping Failure Occurred"),)),
    "remap_banks_max": (number, ((_REMAPPED, _BANKS, "Max"),)),
    "remap_banks_high": (number, ((_REMAPPED, _BANKS, "High"),)),
    "remap_banks_partial": (number, ((_REMAPPED, _BANKS, "Partial"),)),
    "remap_banks_low": (number, ((_REMAPPED, _BANKS, "Low"),)),
    "remap_banks_none": (number, ((_REMAPPED, _BANKS, "None"),)),
    "recovery_action": (
        one_of("None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"),
        (("GPU Recovery Action",),),
    ),
    "persistence": (yes, (("Persistence Mode",),)),
    "compute_mode": (
        one_of("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"),
        (("Compute Mode",),),
    ),
    "display_active": (yes, (("Display Active",),)),
    "addressing_mode": (one_of("None", "HMM", "ATS"), (("Addressing Mode",),)),
    "fabric_state": (one_of("Not Started", "In Progress", "Completed", first=1), (("Fabric", "State"),)),
    "fabric_status": (one_of("Success"), (("Fabric", "Status"),)),
    "mig_enabled": (yes, (("MIG Mode", "Current"),)),
    "mig_enabled_pending": (yes, (("MIG Mode", "Pending"),)),
}
"""What a look reads, one line a value."""

SUMS: Mapping[str, tuple[tuple[Route, ...], ...]] = {
    f"ecc_{short}_{period.lower()}": (
        (("ECC Errors", period, f"DRAM {long}"),),
        (
            ("ECC Errors", period, f"SRAM {long}"),
            ("ECC Errors", period, f"SRAM {long} Parity"),
        ),
        *(((("ECC Errors", period, f"SRAM {long} SEC-DED"),),) if short == "dbe" else ()),
    )
    for short, long in (("sbe", "Correctable"), ("dbe", "Uncorrectable"))
    for period in ("Volatile", "Aggregate")
} | {
    f"ecc_{place.lower()}_{kind}_{period.lower()}": (
        (("ECC Errors", period, f"{place} {long}"), ("ECC Errors", period, f"{place} {long} Parity")),
        *(
            ((("ECC Errors", period, f"SRAM {long} SEC-DED"),),)
            if (place, kind) == ("SRAM", "uncorrected")
            else ()
        ),
    )
    for place in ("SRAM", "DRAM")
    for kind, long in (("corrected", "Correctable"), ("uncorrected", "Uncorrectable"))
    for period in ("Volatile", "Aggregate")
}
"""Values that nvidia-smi prints in parts, each of which has had several names."""

REASONS: Mapping[Route, int] = {
    ("Idle",): 0x1,
    ("Applications Clocks Setting",): 0x2,
    ("SW Power Cap",): 0x4,
    ("HW Slowdown",): 0x8,
    ("Sync Boost",): 0x10,
    ("SW Thermal Slowdown",): 0x20,
    ("HW Slowdown", "HW Thermal Slowdown"): 0x40,
    ("HW Slowdown", "HW Power Brake Slowdown"): 0x80,
    ("Display Clock Setting",): 0x100,
}
"""Bits of nvmlClocksEventReasons."""
REASON_SECTIONS = ("Clocks Event Reasons", "Clocks Throttle Reasons")

NOT_PRINTED = frozenset(
    {
        "capability",
        "energy_mj",
        "thermal_violation_ns",
        "board_limit_violation_ns",
        "low_utilization_violation_ns",
        "reliability_violation_ns",
        "num_mig_instances_max",
        "pcie_tx_bytes",
        "pcie_rx_bytes",
    }
)
"""What gpumesh shows and ``nvidia-smi -q`` does not: counters where that prints rates, and what it omits."""


def driver_version(smi: Smi) -> str | None:
    return smi.get("KMD Version") or smi.get("Driver Version")


def cuda_version(smi: Smi) -> str | None:
    return smi.get("CUDA UMD Version") or smi.get("CUDA Version")


def device_values(gpu: SmiGpu) -> dict[str, Value]:
    """What ``device`` is to show of this card; what is not available is absent."""
    return _values(gpu, DEVICE)


def reading_values(gpu: SmiGpu) -> dict[str, Value]:
    """What ``reading`` is to show of this card, but for lists; what is not available is absent."""
    values = _values(gpu, READING)
    for name, parts in SUMS.items():
        found = [_first(gpu, routes) for routes in parts if any(gpu.has(*route) for route in routes)]
        if found and None not in found:
            values[name] = sum(int(number(part)) for part in found if part is not None)
    for section in REASON_SECTIONS:
        if gpu.get(section, "Idle") is not None:
            values["clocks_event_reasons"] = sum(
                bit for route, bit in REASONS.items() if gpu.get(section, *route) == "Active"
            )
    return values


def process_values(process: Block) -> dict[str, Any]:
    """One process; its name is the kernel's short one, which is what gpumesh shows."""
    kinds = {"C": "compute", "G": "graphics", "C+G": "compute+graphics", "M+C": "compute"}
    kind, memory = process.get("Type"), process.get("Used GPU Memory")
    instances = {
        name: process.get(line)
        for name, line in (("gpu_instance", "GPU instance ID"), ("compute_instance", "Compute instance ID"))
    }
    return {
        "pid": int(process.get("Process ID") or 0),
        "kind": kinds[kind or ""],
        "name": PurePath((process.get("Name") or "").split(" ")[0]).name[:15],
        "memory_bytes": None if memory is None else mib(memory),
        **{name: int(text) for name, text in instances.items() if text is not None},
    }


def _values(gpu: Block, table: Mapping[str, tuple[Convert, tuple[Route, ...]]]) -> dict[str, Value]:
    found = {name: (convert, _first(gpu, routes)) for name, (convert, routes) in table.items()}
    return {name: convert(text) for name, (convert, text) in found.items() if text is not None}


def _first(gpu: Block, routes: tuple[Route, ...]) -> str | None:
    return next((text for route in routes if (text := gpu.get(*route)) is not None), None)
