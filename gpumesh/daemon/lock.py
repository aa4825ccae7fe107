"""One daemon a state directory: a lock that dies with its holder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from gpumesh.errors import StateError


class RunLock:
    """Held from :meth:`take` until the process ends or :meth:`release`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self) -> None:
        """Take the lock.

        Errors: :class:`StateError` if another daemon holds it. Where no lock file can be made (a read-only
        directory) none is held: two daemons then still collide on the gossip port.
        """
        try:
            self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o640)
        except OSError:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise StateError(
                f"{self._path.parent}: another gpumesh daemon (process {holder}) uses this state directory; "
                "stop it (`systemctl stop gpumesh`) or set host.state_dir to another one"
            ) from None
        # On a full disk the lock holds all the same; only who holds it is not told.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock up."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _holder(descriptor: int) -> str:
    """Return the holder's process id as it wrote it."""
    try:
        return os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
    except OSError:
        return "unknown"
