"""Looking at the host around the driver: small files under a root, and ``nvidia-ctk`` under a deadline.

What is read is parsed in ``gpumesh/health/hostprobe.py``. The root is a parameter, so that tests and hosts
seen from a container can be read alike. Anything that cannot be read is None; nothing here raises.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from gpumesh.health.hostprobe import HostProbe, parse_os_release, parse_toolkit_version

DEADLINE_S: Final = 3.0
_GRACE_S: Final = 0.2
RETRY_S: Final = 600.0
"""A toolkit that did not answer is asked again after this time, not with every look."""
MAX_BYTES: Final = 64 * 1024
_TOOLKIT_PLACES: Final = (
    "usr/bin/nvidia-ctk",
    "usr/local/bin/nvidia-ctk",
    "usr/local/nvidia/toolkit/nvidia-ctk",
    "run/current-system/sw/bin/nvidia-ctk",
)

_Stamp = tuple[str, int, int]


class HostProber:
    """Reads the host; what is costly is kept until its file changes.

    ``root``: where the host's file tree begins. ``deadline_s``: how long ``nvidia-ctk --version`` may take.
    """

    def __init__(self, root: Path = Path("/"), deadline_s: float = DEADLINE_S) -> None:
        self._root = root
        self._deadline_s = deadline_s
        self._toolkit: tuple[_Stamp, str | None, float] | None = None

    async def probe(self, now: float) -> HostProbe:
        """Return what the host says at ``now`` (boot clock, seconds); never raises."""
        kernel = _text(self._root / "proc/sys/kernel/osrelease")
        release = _text(self._root / "etc/os-release") or _text(self._root / "usr/lib/os-release")
        return HostProbe(
            kernel=kernel or None,
            os=parse_os_release(release) if release else None,
            toolkit_version=await self._toolkit_version(now),
            is_nouveau_loaded=self._is_nouveau_loaded(),
        )

    def _is_nouveau_loaded(self) -> bool | None:
        modules = self._root / "sys/module"
        return (modules / "nouveau").is_dir() if modules.is_dir() else None

    async def _toolkit_version(self, now: float) -> str | None:
        stamp = self._toolkit_stamp()
        if stamp is None:
            self._toolkit = None
            return "" if (self._root / "usr").is_dir() else None
        if self._toolkit is not None and self._toolkit[0] == stamp:
            _, version, asked_at = self._toolkit
            if version is not None or now - asked_at < RETRY_S:
                return version
        version = parse_toolkit_version(await self._ask_toolkit(stamp[0]))
        self._toolkit = (stamp, version, now)
        return version

    def _toolkit_stamp(self) -> _Stamp | None:
        for place in _TOOLKIT_PLACES:
            path = self._root / place
            with contextlib.suppress(OSError):
                status = path.stat()
                return str(path), status.st_mtime_ns, status.st_size
        return None

    async def _ask_toolkit(self, path: str) -> str:
        try:
            process = await asyncio.create_subprocess_exec(
                path,
                "--version",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            )
        except OSError:
            return ""
        try:
            return await asyncio.wait_for(_output(process), self._deadline_s)
        except asyncio.TimeoutError:
            return ""
        finally:
            await _end(process, self._deadline_s)


async def _output(process: asyncio.subprocess.Process) -> str:
    """Return what a process prints until it ends, at most :data:`MAX_BYTES` of it."""
    assert process.stdout is not None
    output = b""
    while len(output) < MAX_BYTES and (chunk := await process.stdout.read(MAX_BYTES)):
        output += chunk
    return output[:MAX_BYTES].decode(errors="replace")


async def _end(process: asyncio.subprocess.Process, deadline_s: float) -> None:
    """Reap a process; one that is still there is killed: ``--version`` touches no card, so nothing is wedged."""
    if process.returncode is None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE_S)
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), deadline_s)


def _text(path: Path) -> str | None:
    """Return the beginning of a small file without surrounding blanks, or None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode(errors="replace").strip()
    except OSError:
        return None
