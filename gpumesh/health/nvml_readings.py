"""Readings that take one call for several values. Errors of all functions: GpuLostError."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from gpumesh.errors import DriverError, GpuLostError
from gpumesh.health.nvml_card import Card
from gpumesh.health.nvml_table import SELDOM, Call

MAX_LINKS: Final = 36
_VGPU: Final = 2
_FABRIC_NOT_SUPPORTED: Final = 0
_FABRIC_COMPLETED: Final = 3
_BANKS: Final = ("max", "high", "partial", "low", "none")


class _FabricInfo(ctypes.Structure):
    """nvml.h's nvmlGpuFabricInfo_t; older bindings bring one of another shape, in which nothing is found."""

    _fields_ = (
        ("cluster_uuid", ctypes.c_uint8 * 16),
        ("status", ctypes.c_uint),
        ("clique", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
    )


class _SramErrorStatus(ctypes.Structure):
    """nvml.h's nvmlEccSramErrorStatus_v1_t; older bindings have no such call."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("counts", ctypes.c_ulonglong * 11),
        ("is_threshold_exceeded", ctypes.c_uint),
    )


_SRAM_ERROR_STATUS_V1: Final = ctypes.sizeof(_SramErrorStatus) | 1 << 24


def read_seldom(card: Card, virtualization: int | None, num_nvlinks: int | None) -> dict[str, Any]:
    """Return what changes so rarely that a look once in a while will do."""
    values: dict[str, Any] = {call.field: card.ask(call) for call in SELDOM}
    values |= _ecc_mode(card)
    values |= _sram_status(card)
    values |= _bar1(card)
    values |= _fabric(card)
    if virtualization != _VGPU:
        # In a vGPU's guest each such call puts a warning into the kernel's log.
        values |= _remap_banks(card)
    if num_nvlinks:
        values["nvlinks"] = tuple(_is_link_up(card, link) for link in range(min(num_nvlinks, MAX_LINKS)))
    return values


def _ecc_mode(card: Card) -> dict[str, Any]:
    answer = card.ask(Call("ecc", ("nvmlDeviceGetEccMode",)))
    if answer is None:
        return {}
    return {"ecc_enabled": bool(answer[0]), "ecc_enabled_pending": bool(answer[1])}


def _sram_status(card: Card) -> dict[str, Any]:
    found = _SramErrorStatus(version=_SRAM_ERROR_STATUS_V1)
    if card.ask(Call("sram", ("nvmlDeviceGetSramEccErrorStatus",)), ctypes.byref(found)) is None:
        return {}
    return {"ecc_sram_threshold_exceeded": bool(found.is_threshold_exceeded)}


def _bar1(card: Card) -> dict[str, Any]:
    answer = card.ask(Call("bar1", ("nvmlDeviceGetBAR1MemoryInfo",)))
    if answer is None:
        return {}
    return {"bar1_total_bytes": int(answer.bar1Total), "bar1_used_bytes": int(answer.bar1Used)}


def _fabric(card: Card) -> dict[str, Any]:
    found = _FabricInfo()
    if card.ask(Call("fabric", ("nvmlDeviceGetGpuFabricInfo",)), ctypes.byref(found)) is None:
        return {}
    state = int(found.state)
    if state == _FABRIC_NOT_SUPPORTED:
        return {}
    status = int(found.status) if state == _FABRIC_COMPLETED else None
    return {"fabric_state": state, "fabric_status": status}


def _remap_banks(card: Card) -> dict[str, Any]:
    answer = card.ask(Call("banks", ("nvmlDeviceGetRowRemapperHistogram",)))
    return {} if answer is None else {f"remap_banks_{name}": int(getattr(answer, name)) for name in _BANKS}


def _is_link_up(card: Card, link: int) -> bool | None:
    try:
        return bool(card.session.call("nvmlDeviceGetNvLinkState", card.index, card.handle, link))
    except GpuLostError:
        raise
    except DriverError:
        # A link that this board does not lead out; it is not one that is down.
        return None


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
