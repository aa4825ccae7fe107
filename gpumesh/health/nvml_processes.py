"""Who is on a card: compute and graphics processes, with names where /proc tells them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from gpumesh.health.devices import Process
from gpumesh.health.nvml_card import Card
from gpumesh.health.nvml_table import PROCESS_CALLS, Call

MAX_PROCESSES: Final = 512
"""Processes kept of one card."""
_MAX_NAME_BYTES: Final = 64


def read_processes(card: Card, root: Path) -> tuple[Process, ...] | None:
    """Return the card's processes; None if the driver cannot list them. Errors: GpuLostError."""
    found: dict[int, Process] = {}
    is_listed = False
    for kind, functions in PROCESS_CALLS:
        answer = card.ask(Call(kind, functions))
        is_listed = is_listed or answer is not None
        for item in (answer or ())[:MAX_PROCESSES]:
            pid = int(item.pid)
            earlier = found.get(pid)
            memory_bytes = None if item.usedGpuMemory is None else int(item.usedGpuMemory)
            found[pid] = Process(
                pid=pid,
                kind=kind if earlier is None else "compute+graphics",
                memory_bytes=memory_bytes if earlier is None else _larger(earlier.memory_bytes, memory_bytes),
                name=_name(root / f"proc/{pid}") if earlier is None else earlier.name,
            )
    return tuple(found.values()) if is_listed else None


def _name(folder: Path) -> str | None:
    with suppress(OSError), (folder / "comm").open("rb") as file:
        return file.read(_MAX_NAME_BYTES).decode(errors="replace").strip() or None
    return None


def _larger(*values: int | None) -> int | None:
    return max((value for value in values if value is not None), default=None)
