"""Prober processes that an earlier look left behind, stuck in the driver: no further one starts behind them.

A one-shot check has no memory, so what is stuck is found in /proc: a prober whose starter is gone, or one
that waits inside the kernel (state D). Left by whom does not matter, the daemon's own counts as well
(gpud#117: one more process stuck at each check). Only processes of root, of the daemon's user and of our own
are believed: anybody can give a process this name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROBER: Final = b"gpumesh.daemon.prober_child"
_MAX_BYTES: Final = 4096
_STATE, _PARENT, _STARTED = 0, 1, 19
"""Places in ``/proc/<pid>/stat`` behind the process's name (proc(5), fields 3, 4 and 22)."""


@dataclass(frozen=True, slots=True)
class StuckProber:
    """A prober process that should be gone."""

    pid: int
    started_at: float
    """Boot clock, seconds."""


def stuck_probers(root: Path, state_dir: Path) -> tuple[StuckProber, ...]:
    """Return the probers under ``root``/proc that are stuck now, oldest first; never raises.

    One glance cannot tell stuck from about to end: ask twice, and believe what stands in both.
    """
    trusted = {0, os.geteuid()}
    with suppress(OSError):
        trusted.add(state_dir.stat().st_uid)
    found = [stuck for path in _processes(root) if (stuck := _examine(path, trusted)) is not None]
    return tuple(sorted(found, key=lambda item: item.started_at))


def _processes(root: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (path for path in (root / "proc").iterdir() if path.name.isdecimal())


def _examine(path: Path, trusted: set[int]) -> StuckProber | None:
    try:
        if path.stat().st_uid not in trusted:
            return None
        words = _start_of(path / "cmdline").split(b"\0")
        if PROBER not in words or _is_contained(path):
            return None
        stat = _start_of(path / "stat").rpartition(b")")[2].split()
        state, parent = stat[_STATE], int(stat[_PARENT])
        # Its last argument names the process that started it (prober_child.main).
        starter = int(words[-2])
        started_at = int(stat[_STARTED]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
    is_over = state in (b"Z", b"X")
    is_stuck = not is_over and (state == b"D" or parent != starter)
    return StuckProber(int(path.name), started_at) if is_stuck else None


def _is_contained(path: Path) -> bool:
    """Say whether it lives in a container: the process ids in its arguments are of another count then."""
    for line in _start_of(path / "status").splitlines():
        if line.startswith(b"NSpid:"):
            return len(line.split()) > len((b"NSpid:", b"its own"))
    return False


def _start_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MAX_BYTES)
