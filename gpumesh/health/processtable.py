"""What /proc tells of a process that is on a card: its name, whose it is, and whether it lives.

Users' names come from /etc/passwd alone: asking the name service could wait for a directory server, and this
runs while the driver is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

GONE: Final = "X"
"""The kernel's own letter for a dead process; here, for one that it does not know."""
_INITIAL_NAMESPACE: Final = "pid:[4026531836]"
"""The kernel's fixed name for the first PID namespace: the driver's numbers are of that one."""
_MAX_NAME_BYTES: Final = 64
_MAX_STAT_BYTES: Final = 512
_MAX_PASSWD_BYTES: Final = 1 << 20


class ProcessTable:
    """Processes by number, as /proc under ``root`` shows them."""

    def __init__(self, root: Path) -> None:
        self._proc = root / "proc"
        self._passwd = root / "etc/passwd"
        self._stamp: tuple[int, int] | None = None
        self._users: dict[int, str] = {}

    def name(self, pid: int) -> str | None:
        """Return the program's name; None where /proc does not tell."""
        with suppress(OSError), (self._proc / f"{pid}/comm").open("rb") as file:
            return file.read(_MAX_NAME_BYTES).decode(errors="replace").strip() or None
        return None

    def user(self, pid: int) -> str | None:
        """Return whose process it is, by name or else by number; None where /proc does not tell."""
        try:
            number = (self._proc / str(pid)).stat().st_uid
        except OSError:
            return None
        self._refresh_users()
        return self._users.get(number, str(number))

    def state(self, pid: int) -> str | None:
        """Return the kernel's letter for its state; ``X`` if there is no such process, None if unknown."""
        try:
            with (self._proc / f"{pid}/stat").open("rb") as file:
                after_name = file.read(_MAX_STAT_BYTES).rpartition(b") ")[2]
        except FileNotFoundError:
            return GONE if self._shows_all() else None
        except OSError:
            return None
        return after_name[:1].decode("ascii", errors="replace") or None

    def _shows_all(self) -> bool:
        """Tell whether a process that is not in /proc does not exist.

        Not so in a container, whose numbers are others, nor where /proc hides what other users run.
        """
        try:
            namespace = (self._proc / "self/ns/pid").readlink()
        except OSError:
            return False
        return str(namespace) == _INITIAL_NAMESPACE and (self._proc / "1").exists()

    def _refresh_users(self) -> None:
        try:
            status = self._passwd.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp == self._stamp:
                return
            with self._passwd.open(errors="replace") as file:
                self._users = dict(_parsed(file.read(_MAX_PASSWD_BYTES)))
            self._stamp = stamp
        except OSError:
            self._stamp, self._users = None, {}


def _parsed(text: str) -> Iterator[tuple[int, str]]:
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        number = rest.split(":")[1] if rest.count(":") >= 1 else ""
        if name and number.isdecimal():
            yield int(number), name[:_MAX_NAME_BYTES]
