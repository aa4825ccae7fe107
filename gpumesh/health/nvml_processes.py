"""Who is on a card: compute and graphics processes, with names, users and states where /proc tells them.

On a carved-up card each is told with the MIG instance that it runs in.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from gpumesh.errors import DriverError, GpuLostError
from gpumesh.health.devices import MigInstance, Process
from gpumesh.health.nvml_card import Card
from gpumesh.health.nvml_table import PROCESS_CALLS, Call
from gpumesh.health.processtable import ProcessTable

MAX_PROCESSES: Final = 512
"""Processes kept of one card."""
_NO_INSTANCE: Final = 0xFFFFFFFF
"""NVML's word for a card that is not carved up."""

_Key = tuple[int, int | None, int | None]


def read_processes(
    card: Card, table: ProcessTable, layout: tuple[tuple[Any, MigInstance], ...] = ()
) -> tuple[Process, ...] | None:
    """Return the card's processes; None if the driver cannot list them. Errors: GpuLostError.

    A carved-up card may refuse to name those of all its instances to an ordinary user; then each instance of
    ``layout`` is asked for its own.
    """
    found: dict[_Key, Process] = {}
    is_listed = False
    for kind, functions in PROCESS_CALLS:
        answer = card.ask(Call(kind, functions))
        if answer is None:
            answer = _of_instances(card, functions, layout)
        is_listed = is_listed or answer is not None
        for item in (answer or ())[:MAX_PROCESSES]:
            _add(found, _process(item, kind, table))
    return tuple(found.values()) if is_listed else None


def _of_instances(
    card: Card, functions: tuple[str, ...], layout: tuple[tuple[Any, MigInstance], ...]
) -> list[Any] | None:
    found: list[Any] = []
    is_listed = False
    for handle, _ in layout:
        for function in functions:
            try:
                found += card.session.call(function, card.index, handle)
            except GpuLostError:
                raise
            except DriverError:
                continue
            is_listed = True
            break
    return found if is_listed else None


def _process(item: Any, kind: str, table: ProcessTable) -> Process:
    pid = int(item.pid)
    return Process(
        pid=pid,
        kind=kind,
        memory_bytes=None if item.usedGpuMemory is None else int(item.usedGpuMemory),
        name=table.name(pid),
        user=table.user(pid),
        state=table.state(pid),
        gpu_instance=_instance(item.gpuInstanceId),
        compute_instance=_instance(item.computeInstanceId),
    )


def _instance(number: int | None) -> int | None:
    return None if number is None or number == _NO_INSTANCE else int(number)


def _add(found: dict[_Key, Process], process: Process) -> None:
    """Take it in; one that computes and draws is listed twice by the driver."""
    key = process.pid, process.gpu_instance, process.compute_instance
    earlier = found.get(key)
    if earlier is None:
        found[key] = process
    else:
        memory_bytes = _larger(earlier.memory_bytes, process.memory_bytes)
        found[key] = replace(earlier, kind="compute+graphics", memory_bytes=memory_bytes)


def _larger(*values: int | None) -> int | None:
    return max((value for value in values if value is not None), default=None)
