"""Reading files that an operator, or a failing disk, may have turned into something else."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

_CHUNK_BYTES: Final = 1 << 16


def read_regular(path: Path, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """Return at most ``max_bytes`` of a regular file, and what the system says of that very file.

    Never waits: a pipe or a terminal in its place, whose reader would wait for ever, is refused. Errors:
    OSError with words in ``strerror``, as for ``open``.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a directory, not a file", str(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        return _read(descriptor, max_bytes), status
    finally:
        os.close(descriptor)


def _read(descriptor: int, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    while max_bytes > 0 and (part := os.read(descriptor, min(_CHUNK_BYTES, max_bytes))):
        parts.append(part)
        max_bytes -= len(part)
    return b"".join(parts)
