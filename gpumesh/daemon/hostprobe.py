"""Looking at the host around the driver: small files under a root, and ``nvidia-ctk`` under a deadline.

What is read is parsed in ``gpumesh/health/hostprobe.py``. The root is a parameter, so that tests and hosts
seen from a container can be read alike. Anything that cannot be read is None; nothing here raises.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gpumesh.daemon.containerfiles import ContainerFiles
from gpumesh.daemon.walltime import is_clock_synchronised
from gpumesh.health.hostprobe import HostProbe, parse_os_release, parse_toolkit_version

DEADLINE_S: Final = 3.0
RETRY_S: Final = 600.0
"""A toolkit that did not answer is asked again after this time, not with every look."""
MAX_BYTES: Final = 64 * 1024
_TOOLKIT_PLACES: Final = (
    "usr/bin/nvidia-ctk",
    "usr/local/bin/nvidia-ctk",
    "usr/local/nvidia/toolkit/nvidia-ctk",
    "run/current-system/sw/bin/nvidia-ctk",
)
_LIBRARY_PLACES: Final = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/lib",
)
_LIBRARY: Final = "libnvidia-ml.so.1"
_LIBRARY_STEM: Final = "libnvidia-ml.so."

_Stamp = tuple[str, int, int]


class HostProber:
    """Reads the host; what is costly is kept until its file changes.

    ``root``: where the host's file tree begins. ``deadline_s``: how long ``nvidia-ctk --version`` may take.
    ``ask_clock`` says whether the clock is synchronised.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        deadline_s: float = DEADLINE_S,
        ask_clock: Callable[[], bool | None] = is_clock_synchronised,
    ) -> None:
        self._deadline_s = deadline_s
        self._ask_clock = ask_clock
        self._containers = ContainerFiles(root)
        self._toolkit: tuple[_Stamp, str | None, float] | None = None
        # Made once: putting a path together takes longer than asking the kernel for it.
        self._kernel = root / "proc/sys/kernel/osrelease"
        self._releases = (root / "etc/os-release", root / "usr/lib/os-release")
        self._module_version = root / "sys/module/nvidia/version"
        self._modules = root / "sys/module"
        self._nouveau = root / "sys/module/nouveau"
        self._tree = root / "usr"
        self._toolkits = tuple(root / place for place in _TOOLKIT_PLACES)
        self._libraries = tuple(root / place / _LIBRARY for place in _LIBRARY_PLACES)

    async def probe(self, now: float) -> HostProbe:
        """Return what the host says at ``now`` (boot clock, seconds); never raises."""
        kernel = _text(self._kernel)
        release = _text(self._releases[0]) or _text(self._releases[1])
        return HostProbe(
            kernel=kernel or None,
            os=parse_os_release(release) if release else None,
            toolkit_version=await self._toolkit_version(now),
            is_nouveau_loaded=self._is_nouveau_loaded(),
            module_version=_text(self._module_version) or None,
            library_versions=self._library_versions(),
            is_clock_synchronised=self._ask_clock(),
            containers=self._containers.read(),
        )

    def _is_nouveau_loaded(self) -> bool | None:
        return self._nouveau.is_dir() if self._modules.is_dir() else None

    def _library_versions(self) -> tuple[str, ...]:
        """Return the versions that the library's links lead to, where it is looked for."""
        found = []
        for path in self._libraries:
            with contextlib.suppress(OSError):
                path.stat()  # most places lack it, and following each link there takes long
                found.append(path.resolve(strict=True).name.removeprefix(_LIBRARY_STEM))
        return tuple(
            version for version in dict.fromkeys(found) if version[:1].isdecimal() and "." in version
        )

    async def _toolkit_version(self, now: float) -> str | None:
        stamp = self._toolkit_stamp()
        if stamp is None:
            self._toolkit = None
            return "" if self._tree.is_dir() else None
        if self._toolkit is not None and self._toolkit[0] == stamp:
            _, version, asked_at = self._toolkit
            if version is not None or now - asked_at < RETRY_S:
                return version
        version = parse_toolkit_version(await self._ask_toolkit(stamp[0]))
        self._toolkit = (stamp, version, now)
        return version

    def _toolkit_stamp(self) -> _Stamp | None:
        for path in self._toolkits:
            with contextlib.suppress(OSError):
                status = path.stat()
                return str(path), status.st_mtime_ns, status.st_size
        return None

    async def _ask_toolkit(self, path: str) -> str:
        """Return what the toolkit prints, or nothing if it does not end in time."""
        loop = asyncio.get_running_loop()
        try:
            transport, listener = await loop.subprocess_exec(
                _Listener,
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
            await asyncio.wait_for(listener.said.wait(), self._deadline_s)
        except asyncio.TimeoutError:
            return ""
        finally:
            # Closing kills what still runs: --version touches no card, so that nothing is wedged.
            transport.close()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(listener.ended.wait(), self._deadline_s)
        return listener.output.decode(errors="replace")


class _Listener(asyncio.SubprocessProtocol):
    """Collects the first :data:`MAX_BYTES` that a process prints."""

    def __init__(self) -> None:
        self.output = b""
        self.said = asyncio.Event()
        """Set when all is printed, or more than is wanted."""
        self.ended = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002
        self.output = (self.output + data)[:MAX_BYTES]
        if len(self.output) == MAX_BYTES:
            self.said.set()

    def process_exited(self) -> None:
        self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.said.set()


def _text(path: Path) -> str | None:
    """Return the beginning of a small file without surrounding blanks, or None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode(errors="replace").strip()
    except OSError:
        return None
