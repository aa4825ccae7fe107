"""NVML's return codes, turned into gpumesh's errors in this one place, each saying what to do."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gpumesh.errors import DriverAbsentError, DriverError, GpuLostError, NotSupportedError

INVALID_ARGUMENT: Final = 2
NOT_SUPPORTED: Final = 3
NO_PERMISSION: Final = 4
DRIVER_NOT_LOADED: Final = 9
LIBRARY_NOT_FOUND: Final = 12
FUNCTION_NOT_FOUND: Final = 13
GPU_IS_LOST: Final = 15
VERSION_MISMATCH: Final = 18
GPU_NOT_FOUND: Final = 28
UNKNOWN: Final = 999

_WORDS: Final = MappingProxyType(
    {
        1: "not initialised",
        2: "invalid argument",
        3: "not supported",
        4: "no permission",
        6: "not found",
        7: "more entries than expected",
        8: "external power cables are not attached properly",
        9: "NVIDIA driver is not loaded",
        10: "timed out inside the driver",
        11: "interrupt problem: the kernel and the GPU do not hear each other",
        12: "NVML library not found",
        13: "function not in this driver",
        14: "the card's infoROM is corrupted",
        15: "GPU is lost",
        16: "GPU must be reset before it can be used again",
        17: "blocked by the operating system",
        18: "driver and library differ",
        19: "GPU is in use",
        20: "out of memory in the driver",
        21: "no data",
        22: "ECC is not available through the vGPU",
        25: "structure version not known to this driver",
        26: "deprecated",
        27: "not ready",
        28: "GPU not found",
        999: "unknown error in the driver",
    }
)
_ABSENT_VALUE: Final = frozenset({NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, 22, 25, 26})
"""This card, driver or sandbox will give the same answer next time: not asked again in this session."""
ABSENT_THIS_TIME: Final = frozenset({6, 7, 21, 27})
"""Nothing to tell now; the next look may have it."""
_LOST: Final = frozenset({GPU_IS_LOST, GPU_NOT_FOUND})
_VERSION: Final = re.compile(r"\d{3,}\.\d+(?:\.\d+)?")
_MAX_TEXT_BYTES: Final = 1 << 20


def of_card(code: int, call: str, *, is_handle: bool = False) -> DriverError:
    """Return the error that NVML's answer ``code`` to ``call`` on one card means.

    ``is_handle``: the card's handle itself was asked for, so an unknown error is that of a card that cannot
    be reached (gpud#1180, k8s-device-plugin#338).
    """
    message = f"{words(code)} (NVML {code} in {call})"
    if code in _LOST or (is_handle and code == UNKNOWN):
        return GpuLostError(message, code=code, call=call)
    if code in _ABSENT_VALUE and not is_handle:
        return NotSupportedError(message, code=code, call=call)
    return DriverError(message, code=code, call=call)


def of_driver(code: int, call: str, root: Path) -> DriverError:
    """Return the error that NVML's answer ``code`` to a call on the whole driver means."""
    if code == DRIVER_NOT_LOADED:
        hint = "load it with `modprobe nvidia`; if there is no such module, install the NVIDIA driver"
    elif code == LIBRARY_NOT_FOUND:
        hint = (
            "libnvidia-ml.so.1 is not on this host: install the driver's user-space part "
            "(Debian: libnvidia-ml1, Ubuntu: libnvidia-compute-*)"
        )
    elif code == VERSION_MISMATCH:
        hint = f"{_both_versions(root)}: reload the kernel modules or reboot; running work is not affected"
    else:
        return DriverError(f"{words(code)} (NVML {code} in {call})", code=code, call=call)
    return DriverAbsentError(f"{words(code)} (NVML {code}): {hint}", code=code, call=call)


def words(code: int) -> str:
    """Return what a return code means."""
    return _WORDS.get(code, "error in the driver")


def _both_versions(root: Path) -> str:
    kernel = _version_in(root / "proc/driver/nvidia/version") or _version_in(
        root / "sys/module/nvidia/version"
    )
    return (
        f"kernel module {kernel or 'of unknown version'}, library {_library_version(root) or 'another one'}"
    )


def _version_in(path: Path) -> str | None:
    match = _VERSION.search(_text(path).partition("\n")[0])
    return match[0] if match else None


def _library_version(root: Path) -> str | None:
    """Return the version in the file name of the library that this process has mapped."""
    for line in _text(root / "proc/self/maps").splitlines():
        _, _, name = line.partition("libnvidia-ml.so.")
        match = _VERSION.match(name)
        if match:
            return match[0]
    return None


def _text(path: Path) -> str:
    with suppress(OSError), path.open(errors="replace") as file:
        return file.read(_MAX_TEXT_BYTES)
    return ""
