"""What the host says besides its driver: kernel, system, container toolkit, PCI bus. Values and parsing only.

``gpumesh/daemon/hostprobe.py`` reads the files and runs ``nvidia-ctk``; here is what is made of their text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

NVIDIA_VENDOR: Final = 0x10DE
_DISPLAY_CLASS: Final = 0x03
_ADDRESS: Final = re.compile(r"([0-9a-fA-F]{1,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")
_TOOLKIT: Final = re.compile(r"\bversion:?\s+v?(\d[\w.+~-]*)")
_MODULE: Final = re.compile(r"\b(\d{3}(?:\.\d{1,4}){1,3})\b")
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
    """Version of the loaded ``nvidia`` kernel module; None also when none is loaded."""
    library_version: str | None = None
    """Version in the file name of the installed ``libnvidia-ml``; None also when there is none."""
    pci_addresses: tuple[str, ...] | None = None
    """NVIDIA display controllers on the PCI bus, in the driver's form."""


def pci_address(text: str) -> str:
    """Return a PCI address in the driver's form, ``00000000:01:00.0``; other text comes back as it is.

    sysfs writes a domain of four digits in lower case, NVML one of eight in upper case.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return text.strip()
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):08X}:{bus}:{device}.{function}".upper()


def is_nvidia_display(vendor: str, device_class: str) -> bool:
    """Say whether sysfs's ``vendor`` and ``class`` files name an NVIDIA VGA or 3D controller."""
    try:
        return int(vendor, 16) == NVIDIA_VENDOR and int(device_class, 16) >> 16 == _DISPLAY_CLASS
    except ValueError:
        return False


def parse_os_release(content: str) -> str | None:
    """Return the system's name out of ``/etc/os-release``."""
    match = _OS_NAME.search(content)
    return match["name"][:_MAX_NAME] if match and match["name"] else None


def parse_toolkit_version(output: str) -> str | None:
    """Return the version out of what ``nvidia-ctk --version`` prints, or None if it holds none."""
    match = _TOOLKIT.search(output)
    return match[1] if match else None


def parse_driver_version(text: str) -> str | None:
    """Return the first driver version (``535.154.05``) in a version file or a library's file name."""
    match = _MODULE.search(text)
    return match[1] if match else None
