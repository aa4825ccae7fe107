"""What the host says besides its driver: kernel, system, container toolkit. Values and parsing only.

``gpumesh/daemon/hostprobe.py`` reads the files and runs ``nvidia-ctk``; here is what is made of their text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gpumesh.health.containers import Containers
from gpumesh.health.xid_lines import KernelLine

_TOOLKIT: Final = re.compile(r"\bversion:?\s+v?(\d[\w.+~-]*)")
_OS_NAME: Final = re.compile(r"""^PRETTY_NAME=(["']?)(?P<name>.*?)\1\s*$""", re.MULTILINE)
_MAX_NAME: Final = 120


@dataclass(frozen=True, slots=True)
class HostProbe:
    """One look at the host around the driver; None means that it could not be read."""

    kernel: str | None = None
    """The kernel's release, e.g. ``6.1.0-18-amd64``."""
    os: str | None = None
    """The system's name for people, e.g. ``Debian GNU/Linux 12 (bookworm)``."""
    toolkit_version: str | None = None
    """Of the NVIDIA Container Toolkit; empty when it is not installed."""
    is_nouveau_loaded: bool | None = None
    module_version: str | None = None
    """Of the NVIDIA kernel module that is loaded."""
    library_versions: tuple[str, ...] = ()
    """Of the NVML libraries on disk, which the next program will load."""
    is_clock_synchronised: bool | None = None
    """By a time service, as the kernel knows it."""
    clock_offset_s: float | None = None
    """How far peers' wall clocks are ahead of this one, seconds."""
    num_clock_peers: int = 0
    """Of how many peers that was made."""
    containers: Containers | None = None
    """The container runtimes and what they know of the cards."""
    kernel_lines: tuple[KernelLine, ...] = ()
    """The driver's lines in the kernel's log that are new since the last look, oldest first."""
    kernel_log_error: str = ""
    """Why the kernel's log cannot be read; empty if it can."""


def parse_os_release(content: str) -> str | None:
    """Return the system's name out of ``/etc/os-release``."""
    match = _OS_NAME.search(content)
    return match["name"][:_MAX_NAME] if match and match["name"] else None


def parse_toolkit_version(output: str) -> str | None:
    """Return the version out of what ``nvidia-ctk --version`` prints, or None if it holds none."""
    match = _TOOLKIT.search(output)
    return match[1] if match else None
