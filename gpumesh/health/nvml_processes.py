"""Who is on a card: compute and graphics processes, with names, users and states where /proc tells them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpumesh.health.devices import Process
from gpumesh.health.nvml_card import Card
from gpumesh.health.nvml_table import PROCESS_CALLS, Call
from gpumesh.health.processtable import ProcessTable

MAX_PROCESSES: Final = 512
"""Processes kept of one card."""


def read_processes(card: Card, table: ProcessTable) -> tuple[Process, ...] | None:
    """Return the card's processes; None if the driver cannot list them. Errors: GpuLostError."""
    found: dict[int, Process] = {}
    is_listed = False
    for kind, functions in PROCESS_CALLS:
        answer = card.ask(Call(kind, functions))
        is_listed = is_listed or answer is not None
        for item in (answer or ())[:MAX_PROCESSES]:
            pid = int(item.pid)
            memory_bytes = None if item.usedGpuMemory is None else int(item.usedGpuMemory)
            earlier = found.get(pid)
            if earlier is not None:
                memory_bytes = _larger(earlier.memory_bytes, memory_bytes)
                found[pid] = replace(earlier, kind="compute+graphics", memory_bytes=memory_bytes)
                continue
            name, user, state = table.name(pid), table.user(pid), table.state(pid)
            found[pid] = Process(pid, kind, memory_bytes, name, user, state)
    return tuple(found.values()) if is_listed else None


def _larger(*values: int | None) -> int | None:
    return max((value for value in values if value is not None), default=None)
