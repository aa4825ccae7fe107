"""Prober processes that an earlier look left behind, stuck in the driver: no further one starts behind them.

Neither a one-shot check nor a daemon that starts has a memory of them, so what is stuck is found in /proc: a
prober whose starter is gone, or one that waits inside the kernel (state D). Left by whom does not matter
(gpud#117: one more process stuck at each check). Only processes of root, of the daemon's user and of our own
are believed: anybody can give a process this name.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpumesh.health.devices import Probe

PROBER: Final = b"gpumesh.daemon.prober_child"
SECOND_GLANCE_S: Final = 0.5
_MAX_BYTES: Final = 4096
_STATE, _PARENT, _STARTED = 0, 1, 19
"""Places in ``/proc/<pid>/stat`` behind the process's name (proc(5), fields 3, 4 and 22)."""


@dataclass(frozen=True, slots=True)
class StuckProber:
    """A prober process that should be gone."""

    pid: int
    started_at: float
    """Boot clock, seconds."""
    is_orphan: bool
    """Whoever started it is gone; otherwise it may be another's look that is under way."""


async def surely_stuck(root: Path, state_dir: Path | None = None) -> tuple[StuckProber, ...]:
    """Return the probers that are stuck at two glances, oldest first; never raises.

    One glance cannot tell stuck from about to end. The second one is half a second later, where it is needed.
    """
    stuck = stuck_probers(root, state_dir)
    if not stuck:
        return ()
    await asyncio.sleep(SECOND_GLANCE_S)
    again = set(stuck_probers(root, state_dir))
    return tuple(item for item in stuck if item in again)


def hung_behind(stuck: Collection[StuckProber], now: float) -> Probe:
    """Return what a look is that was not begun because of these; ``now`` is seconds on the boot clock."""
    oldest = min(stuck, key=lambda item: item.started_at)
    hung_for_s = max(0.0, now - oldest.started_at)
    error = f"an earlier look (process {oldest.pid}) is stuck in the driver; none is started behind it"
    return Probe(driver=None, is_hung=True, hung_for_s=hung_for_s, error=error)


def stuck_probers(root: Path, state_dir: Path | None = None) -> tuple[StuckProber, ...]:
    """Return the probers under ``root``/proc that are stuck now, oldest first; never raises.

    ``state_dir``: whose owner is believed too, for a caller that is not the daemon.
    """
    trusted = {0, os.geteuid()}
    if state_dir is not None:
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
    is_orphan = parent != starter
    is_stuck = not is_over and (state == b"D" or is_orphan)
    return StuckProber(int(path.name), started_at, is_orphan) if is_stuck else None


def _is_contained(path: Path) -> bool:
    """Say whether it lives in a container: the process ids in its arguments are of another count then."""
    for line in _start_of(path / "status").splitlines():
        if line.startswith(b"NSpid:"):
            return len(line.split()) > len((b"NSpid:", b"its own"))
    return False


def _start_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MAX_BYTES)
