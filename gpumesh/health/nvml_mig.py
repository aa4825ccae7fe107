"""How a card is carved up by MIG, and how full each of its instances is.

The layout is read once in a while, memory at each look. In a container that was given some instances only,
the others are not found and are left out.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from gpumesh.errors import DriverError, GpuLostError
from gpumesh.health.devices import MigInstance
from gpumesh.health.nvml_card import Card
from gpumesh.health.nvml_table import Call, as_text
from gpumesh.health.plausible import keep_plausible

MAX_INSTANCES: Final = 16
_PROFILE: Final = re.compile(r"\bMIG (\S+)")


def read_mig_mode(card: Card) -> dict[str, Any]:
    """Return whether MIG is on, and whether it will be after the next reset. Errors: GpuLostError."""
    answer = card.ask(Call("mig", ("nvmlDeviceGetMigMode",)))
    if answer is None:
        return {}
    return {"mig_enabled": bool(answer[0]), "mig_enabled_pending": bool(answer[1])}


def read_layout(card: Card, num_max: int | None) -> tuple[tuple[Any, MigInstance], ...]:
    """Return each instance with its handle. Errors: GpuLostError."""
    numbers = range(min(num_max or 0, MAX_INSTANCES))
    found = (_find(card, number) for number in numbers)
    return tuple(item for item in found if item is not None)


def read_instances(card: Card, layout: tuple[tuple[Any, MigInstance], ...]) -> tuple[MigInstance, ...]:
    """Return the instances with their memory as it is now. Errors: GpuLostError."""
    return tuple(_with_memory(card, handle, instance) for handle, instance in layout)


def _find(card: Card, number: int) -> tuple[Any, MigInstance] | None:
    try:
        handle = card.session.call("nvmlDeviceGetMigDeviceHandleByIndex", card.index, card.handle, number)
        return handle, _instance(card, handle)
    except GpuLostError:
        raise
    except DriverError:
        return None


def _instance(card: Card, handle: Any) -> MigInstance:
    call, index = card.session.call, card.index
    profile = _PROFILE.search(as_text(call("nvmlDeviceGetName", index, handle)))
    return MigInstance(
        uuid=as_text(call("nvmlDeviceGetUUID", index, handle)),
        gpu_instance=int(call("nvmlDeviceGetGpuInstanceId", index, handle)),
        compute_instance=int(call("nvmlDeviceGetComputeInstanceId", index, handle)),
        profile=profile[1] if profile else "",
        num_multiprocessors=_num_multiprocessors(card, handle),
    )


def _num_multiprocessors(card: Card, handle: Any) -> int | None:
    try:
        return int(card.session.call("nvmlDeviceGetAttributes_v2", card.index, handle).multiprocessorCount)
    except GpuLostError:
        raise
    except DriverError:
        return None


def _with_memory(card: Card, handle: Any, instance: MigInstance) -> MigInstance:
    try:
        memory = card.session.call("nvmlDeviceGetMemoryInfo", card.index, handle)
    except GpuLostError:
        raise
    except DriverError:
        # In a container it may not be told: absent, not empty.
        return instance
    told = replace(
        instance,
        memory_total_bytes=int(memory.total),
        memory_used_bytes=int(memory.used),
        memory_free_bytes=int(memory.free),
    )
    kept, num_dropped = keep_plausible(told)
    card.num_dropped += num_dropped
    return kept
