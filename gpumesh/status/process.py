"""The process's own metrics, under the names that every Prometheus client library gives them.

Read from /proc at each scrape. prometheus-client knows them too, but with it come TLS and an HTTP server,
10 MB in each daemon.
"""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gpumesh.status.exposition import Family

_TICKS_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# Positions in /proc/PID/stat behind the name (proc_pid_stat(5): fields 14, 15, 22, 23 and 24).
_UTIME, _STIME, _STARTTIME, _VSIZE, _RSS = 11, 12, 19, 20, 21


def process_families(proc: Path = Path("/proc")) -> Iterable[Family]:
    """Return the families; what /proc does not tell is left out."""
    virtual = Family("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.")
    resident = Family("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.")
    began = Family(
        "process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds."
    )
    cpu = Family("process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.")
    opened = Family("process_open_fds", "gauge", "Number of open file descriptors.")
    most = Family("process_max_fds", "gauge", "Maximum number of open file descriptors.")
    python = Family("python_info", "gauge", "The Python that runs, in labels.")
    try:
        fields = (proc / "self/stat").read_text().rsplit(")", 1)[1].split()
        virtual.add(int(fields[_VSIZE]))
        resident.add(int(fields[_RSS]) * _PAGE_BYTES)
        cpu.add((int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_S)
        began.add(_boot_unix(proc) + int(fields[_STARTTIME]) / _TICKS_S)
        opened.add(len(os.listdir(proc / "self/fd")))  # noqa: PTH208 - names only, no objects
    except (OSError, ValueError, IndexError):
        pass  # what was read so far is told
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most.add(limit if limit != resource.RLIM_INFINITY else None)
    python.add(
        1, (("implementation", platform.python_implementation()), ("version", platform.python_version()))
    )
    return virtual, resident, began, cpu, opened, most, python


def _boot_unix(proc: Path) -> float:
    """Return when the machine started. Errors: ValueError if /proc/stat does not say."""
    for line in (proc / "stat").read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == "btime":
            return float(value)
    raise ValueError("/proc/stat has no btime")
