"""Readings that take one call for several values. Errors of all functions: GpuLostError."""

from __future__ import annotations

from typing import Any

from gpumesh.health.nvml_card import Card
from gpumesh.health.nvml_table import Call


def read_utilization(card: Card) -> dict[str, Any]:
    """Return how busy the card and its memory are."""
    answer = card.ask(Call("utilization", ("nvmlDeviceGetUtilizationRates",)))
    if answer is None:
        return {}
    return {"utilization_gpu_percent": answer.gpu, "utilization_memory_percent": answer.memory}


def read_remapped(card: Card) -> dict[str, Any]:
    """Return the rows remapped, and whether more is pending or has failed."""
    answer = card.ask(Call("remapped", ("nvmlDeviceGetRemappedRows",)))
    if answer is None:
        return {}
    correctable, uncorrectable, is_pending, has_failed = answer
    return {
        "remapped_correctable": correctable,
        "remapped_uncorrectable": uncorrectable,
        "remap_pending": bool(is_pending),
        "remap_failed": bool(has_failed),
    }


def read_memory(card: Card) -> dict[str, int]:
    """Return total, used, free and, where the driver tells it apart (510 and later), reserved bytes.

    The first form counts what the driver reserves as used (gpustat#141: idle, yet 308 MB used).
    """
    call = Call("memory", ("nvmlDeviceGetMemoryInfo",))
    answer = card.ask(call, card.session.nvml.nvmlMemory_v2)
    if answer is not None:
        return {name: int(getattr(answer, name)) for name in ("total", "used", "free", "reserved")}
    answer = card.ask(call)
    return {} if answer is None else {name: int(getattr(answer, name)) for name in ("total", "used", "free")}
