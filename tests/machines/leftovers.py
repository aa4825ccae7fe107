"""What a killed test run leaves on the host, found by the process id in its names, and removed."""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "gpumesh-test"


def own_prefix() -> str:
    """Return what the names of this process's namespaces, disks and control groups begin with."""
    return f"{PREFIX}-{os.getpid()}"


def cgroup_hierarchies() -> list[Path]:
    """Return where control groups of systemd's own are made: one folder, two on a hybrid host."""
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.procs").exists():
        return [root]
    return [root / name for name in ("systemd", "unified") if (root / name / "cgroup.procs").exists()]


def remove_cgroup(cgroup: Path) -> None:
    """Remove a control group and those inside; one that is still in use stays."""
    for folder, _, _ in os.walk(cgroup, topdown=False):
        # Busy for a moment while the kernel buries the last process; the next start reuses it.
        with suppress(OSError):
            Path(folder).rmdir()


def sweep() -> None:
    """Remove everything whose test run is gone: machines first, then what they used."""
    cgroups = [path for root in cgroup_hierarchies() for path in root.glob(f"{PREFIX}-*") if _is_orphan(path)]
    for cgroup in cgroups:
        with suppress(OSError):
            (cgroup / "cgroup.kill").write_text("1")
    if cgroups:
        time.sleep(0.5)
    for cgroup in cgroups:
        remove_cgroup(cgroup)
    for netns in filter(_is_orphan, Path("/run/netns").glob(f"{PREFIX}-*")):
        subprocess.run(["ip", "netns", "delete", netns.name], check=False, capture_output=True)
    for disks in filter(_is_orphan, Path(tempfile.gettempdir()).glob(f"{PREFIX}-*")):
        for mountpoint in disks.glob("*/root"):
            subprocess.run(["umount", mountpoint], check=False, capture_output=True)
        shutil.rmtree(disks, ignore_errors=True)


def _is_orphan(path: Path) -> bool:
    pid = path.name.removeprefix(f"{PREFIX}-").split("-", maxsplit=1)[0]
    return pid.isdigit() and not Path(f"/proc/{pid}").exists()
