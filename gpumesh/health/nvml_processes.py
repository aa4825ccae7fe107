"""Who is on a card: compute and graphics processes, with names and users where /proc tells them.

On a carved-up card each is told with the MIG instance that it runs in.

Users' names come from /etc/passwd alone: asking the name service could wait for a directory server, and this
runs while the driver is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gpumesh.errors import DriverError, GpuLostError
from gpumesh.health.devices import MigInstance, Process
from gpumesh.health.nvml_card import Card
from gpumesh.health.nvml_table import PROCESS_CALLS, Call

MAX_PROCESSES: Final = 512
"""Processes kept of one card."""
_MAX_NAME_BYTES: Final = 64
_NO_INSTANCE: Final = 0xFFFFFFFF
"""NVML's word for a card that is not carved up."""
_MAX_PASSWD_BYTES: Final = 1 << 20

_Key = tuple[int, int | None, int | None]


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


def read_processes(
    card: Card, root: Path, users: Users, layout: tuple[tuple[Any, MigInstance], ...] = ()
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
            _add(found, _process(item, kind, root, users))
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


def _process(item: Any, kind: str, root: Path, users: Users) -> Process:
    pid = int(item.pid)
    folder = root / f"proc/{pid}"
    return Process(
        pid=pid,
        kind=kind,
        memory_bytes=None if item.usedGpuMemory is None else int(item.usedGpuMemory),
        name=_name(folder),
        user=users.owner(folder),
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


def _name(folder: Path) -> str | None:
    with suppress(OSError), (folder / "comm").open("rb") as file:
        return file.read(_MAX_NAME_BYTES).decode(errors="replace").strip() or None
    return None


def _larger(*values: int | None) -> int | None:
    return max((value for value in values if value is not None), default=None)
