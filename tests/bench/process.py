"""What the kernel says of a process: CPU time and memory, from /proc."""

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS_S = os.sysconf("SC_CLK_TCK")
_KIB = re.compile(r"^(VmRSS|Pss):\s+(\d+) kB", re.MULTILINE)
MIB = 1024.0
_SCHEDULED = 2
"""CPUCLOCK_SCHED of the kernel's posix-timers.h: the clock of all that a process has run."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of one process in MiB: all its pages, and its share of those that others map too."""

    rss: float
    pss: float


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process so far, in user space and kernel, to the nanosecond.

    A tick of ``/proc/PID/stat`` is a hundredth of a second, as much as a prober at rest takes in a minute.
    """
    return time.clock_gettime(~pid << 3 | _SCHEDULED)


def tree_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and of its children so far, those included that have ended."""
    return cpu_s(pid) + _ended_s(pid) + sum(map(tree_cpu_s, children(pid)))


def memory(pid: int) -> Memory:
    """Return what memory a process holds now."""
    rss = dict(_KIB.findall(Path(f"/proc/{pid}/status").read_text()))["VmRSS"]
    pss = dict(_KIB.findall(Path(f"/proc/{pid}/smaps_rollup").read_text()))["Pss"]
    return Memory(int(rss) / MIB, int(pss) / MIB)


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def _ended_s(pid: int) -> float:
    """Return the CPU seconds of the children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[13]) + int(fields[14])) / _TICKS_S
