"""What gpumesh shows of a card, held against what nvidia-smi says just before and just after.

A value that stands must be the same in all three. One that moves must lie between what was said before and
after, with the room that ``ROOM`` gives it and explains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.captures.smi import SmiGpu
from tests.captures.values import DEVICE, MIB, READING, REASON_SECTIONS, SUMS, device_values, reading_values

ROOM: Mapping[str, float] = {
    # Silicon heats within the second that lies between two looks.
    "temperature_c": 3,
    "temperature_memory_c": 3,
    "temperature_margin_c": 3,
    # A fan's wanted speed follows the heat in steps.
    "fan_percent": 8,
    # Averages over another second; at an instant even an idle card draws as it likes.
    "power_w": 40,
    "power_instant_w": 150,
    # Each answer is about the sampling period before it, which for some cards is a sixth of a second.
    "utilization_gpu_percent": 100,
    "utilization_memory_percent": 100,
    "utilization_encoder_percent": 100,
    "utilization_decoder_percent": 100,
    "utilization_jpeg_percent": 100,
    "utilization_ofa_percent": 100,
    # Boost moves clocks in steps of 15 MHz at any time.
    "sm_clock_mhz": 300,
    "graphics_clock_mhz": 300,
    "video_clock_mhz": 300,
    # nvidia-smi rounds to MiB, and it has a context of its own while it looks.
    "memory_used_bytes": 64 * MIB,
    "memory_free_bytes": 64 * MIB,
    "memory_reserved_bytes": 1 * MIB,
    "memory_total_bytes": 1 * MIB,
    "bar1_used_bytes": 64 * MIB,
    "bar1_total_bytes": 1 * MIB,
    # nvidia-smi rounds the driver's nanoseconds to microseconds.
    "power_violation_ns": 1000,
    "sync_boost_violation_ns": 1000,
    "slowdown_software_thermal_ns": 1000,
    "slowdown_hardware_thermal_ns": 1000,
    "slowdown_power_brake_ns": 1000,
}
WATT_ROUNDING = 0.005
"""nvidia-smi prints two decimals of watts."""


def differences(
    device: Mapping[str, Any], reading: Mapping[str, Any], before: SmiGpu, after: SmiGpu
) -> list[str]:
    """What is shown otherwise than nvidia-smi says it; empty if all agrees."""
    shown = {**device, **reading}
    said = [{**device_values(gpu), **reading_values(gpu)} for gpu in (before, after)]
    names = [*DEVICE, *READING, *SUMS, "clocks_event_reasons"]
    return [
        f"{name}: shown {shown.get(name)!r}, nvidia-smi {said[0].get(name)!r} and {said[1].get(name)!r}"
        for name in names
        if is_printed(before, name)
        and not is_between(name, shown.get(name), said[0].get(name), said[1].get(name))
    ]


def is_printed(gpu: SmiGpu, name: str) -> bool:
    """Whether this nvidia-smi prints the value at all, available or not; an older one prints less."""
    if name == "clocks_event_reasons":
        return any(gpu.has(section, "Idle") for section in REASON_SECTIONS)
    table = {**DEVICE, **READING}
    parts = SUMS.get(name) or (table[name][1],)
    return all(any(gpu.has(*route) for route in routes) for routes in parts[:2])


def is_between(name: str, shown: Any, before: Any, after: Any) -> bool:
    """Whether the value lies where nvidia-smi has it."""
    if shown is None or before is None or after is None:
        return shown is None and before is after is None
    if isinstance(before, str | bool) or name == "clocks_event_reasons":
        return shown in {before, after}
    room = ROOM.get(name, WATT_ROUNDING if name.endswith("_w") else 0)
    return bool(min(before, after) - room <= shown <= max(before, after) + room)


def process_differences(
    shown: Iterable[Mapping[str, Any]],
    before: Iterable[Mapping[str, Any]],
    after: Iterable[Mapping[str, Any]],
) -> list[str]:
    """Processes that both times were there and are not shown, or that are shown and never were there."""
    found, first, second = (
        {(item["pid"], item["kind"], item.get("gpu_instance")) for item in items}
        for items in (shown, before, after)
    )
    missing = [f"not shown: {item}" for item in sorted(first & second - found, key=str)]
    return missing + [f"made up: {item}" for item in sorted(found - first - second, key=str)]


def mig_differences(shown: Iterable[Mapping[str, Any]], gpu: SmiGpu) -> list[str]:
    """MIG instances by their numbers and sizes."""
    found = {
        (item["gpu_instance"], item["compute_instance"], (item.get("memory_total_bytes") or 0) // MIB)
        for item in shown
    }
    said = {
        (
            int(item.get("GPU Instance ID") or 0),
            int(item.get("Compute Instance ID") or 0),
            int((item.get("Shared FB Memory Usage", "Total") or "0").split()[0]),
        )
        for item in gpu.mig_devices
    }
    return [f"MIG instance: {item}" for item in sorted(found ^ said)]
