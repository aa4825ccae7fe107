"""What changes on a host when NVIDIA's library is installed: seen without loading anything.

A host without the library would otherwise pay for a fresh process at each look, for ever, since only a fresh
one notices that it has appeared (the C library caches where it has looked).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LIBRARY: Final = "libnvidia-ml.so.1"
_PLACES: Final = (
    "etc/ld.so.cache",
    "usr/lib",
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/local/lib",
)
"""The loader's own list, and the folders it looks through besides."""


def library_traces(root: Path, search_path: str) -> tuple[int | None, ...]:
    """Return instants that differ once the library may have come or gone.

    ``search_path`` is LD_LIBRARY_PATH's value.
    """
    return tuple(_changed_at(path) for path in _paths(root, search_path))


def _paths(root: Path, search_path: str) -> Iterator[Path]:
    for place in _PLACES:
        yield root / place
    for folder in search_path.split(os.pathsep):
        if folder:
            yield Path(folder) / LIBRARY


def _changed_at(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
