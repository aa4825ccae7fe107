"""Who is on a card: compute and graphics processes, with names and users where /proc tells them.

Users' names come from /etc/passwd alone: asking the name service could wait for a directory server, and this
runs while the driver is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpumesh.health.devices import Process
from gpumesh.health.nvml_card import Card
from gpumesh.health.nvml_table import PROCESS_CALLS, Call

MAX_PROCESSES: Final = 512
"""Processes kept of one card."""
_MAX_NAME_BYTES: Final = 64
_MAX_PASSWD_BYTES: Final = 1 << 20


class Users:
    """Names of users by number, from ``etc/passwd`` under ``root``, read again when it changes."""

    def __init__(self, root: Path) -> None:
        self._path = root / "etc/passwd"
        self._stamp: tuple[int, int] | None = None
        self._names: dict[int, str] = {}

    def owner(self, folder: Path) -> str | None:
        """Return whose folder this is: a name, else a number; None if the folder cannot be seen."""
        try:
            number = folder.stat().st_uid
        except OSError:
            return None
        self._refresh()
        return self._names.get(number, str(number))

    def _refresh(self) -> None:
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp == self._stamp:
                return
            with self._path.open(errors="replace") as file:
                self._names = dict(_parsed(file.read(_MAX_PASSWD_BYTES)))
            self._stamp = stamp
        except OSError:
            self._stamp, self._names = None, {}


def _parsed(text: str) -> Iterator[tuple[int, str]]:
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        number = rest.split(":")[1] if rest.count(":") >= 1 else ""
        if name and number.isdecimal():
            yield int(number), name[:_MAX_NAME_BYTES]


def read_processes(card: Card, root: Path, users: Users) -> tuple[Process, ...] | None:
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
            folder = root / f"proc/{pid}"
            found[pid] = Process(pid, kind, memory_bytes, _name(folder), users.owner(folder))
    return tuple(found.values()) if is_listed else None


def _name(folder: Path) -> str | None:
    with suppress(OSError), (folder / "comm").open("rb") as file:
        return file.read(_MAX_NAME_BYTES).decode(errors="replace").strip() or None
    return None


def _larger(*values: int | None) -> int | None:
    return max((value for value in values if value is not None), default=None)
