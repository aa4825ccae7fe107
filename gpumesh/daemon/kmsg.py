"""The kernel's log from /dev/kmsg: the driver's lines since boot, a bounded number at each look.

The kernel keeps a ring and hands out one record a read: priority, sequence number, microseconds since boot,
then the text with everything unprintable escaped. A reader that a flood overtakes gets EPIPE and goes on at
the oldest record that is left; the sequence numbers say how many it missed. Source:
Documentation/ABI/testing/dev-kmsg of the Linux kernel.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpumesh.health.xid_lines import PREFIX, KernelLine

MAX_READS: Final = 8192
"""Records read in one look; more than that waits for the next."""
MAX_LINES: Final = 1024
"""Driver's lines handed out in one look."""
MAX_TEXT: Final = 1024
_RECORD_BYTES: Final = 16 << 10
"""The kernel refuses a smaller buffer than its longest record, 8 KiB."""
_HEAD: Final = re.compile(r"(\d{1,10}),(\d{1,20}),(\d{1,20}),[^;]{0,64};")
_ESCAPED: Final = re.compile(r"\\x([0-9a-f]{2})")
_KMSG_DEVICE: Final = os.makedev(1, 11)
_MARK: Final = PREFIX.encode()


@dataclass(frozen=True, slots=True)
class KernelLogRead:
    """What one look found."""

    lines: tuple[KernelLine, ...] = ()
    error: str = ""
    """Why the log cannot be read; empty if it can."""


class KernelLog:
    """Reads ``dev/kmsg`` under ``root`` from the boot on, without ever waiting for it.

    A plain file of such records will do too. ``read`` and ``monotonic`` stand in for the system's in tests.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        read: Callable[[int, int], bytes] = os.read,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = root / "dev/kmsg"
        self._read = read
        self._monotonic = monotonic
        self._descriptor = -1
        self._rest = b""
        self._next_sequence: int | None = None
        self.num_lost = 0
        """Records that the kernel overwrote before they could be read."""

    def read_new(self, now: float) -> KernelLogRead:
        """Return the driver's lines since the last call. ``now``: boot clock, seconds. Never raises."""
        lines: list[KernelLine] = []
        try:
            if self._descriptor < 0:
                self._descriptor = os.open(
                    self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
                )
                if not _is_log(os.fstat(self._descriptor)):
                    self.close()
                    return KernelLogRead(error=f"{self._path}: is something else in this container")
            # The kernel stamps with a clock that stands still during suspend.
            self._take(lines, now - self._monotonic())
        except OSError as error:
            self.close()
            return KernelLogRead(tuple(lines), f"{self._path}: {error.strerror}")
        return KernelLogRead(tuple(lines))

    def close(self) -> None:
        """Close the log; the next read begins at the boot again, and lines are not handed out twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._rest = -1, b""

    def _take(self, lines: list[KernelLine], offset_s: float) -> None:
        for _ in range(MAX_READS):
            data = self._read_once()
            if data is None:
                break
            *records, self._rest = (self._rest + data).split(b"\n")
            self._rest = self._rest[-_RECORD_BYTES:]
            for record in records:
                # Lines that begin with a blank belong to the record before: its device, say.
                line = None if record[:1] == b" " else self._line(record, offset_s)
                if line is not None:
                    lines.append(line)
            if len(lines) >= MAX_LINES:
                break

    def _read_once(self) -> bytes | None:
        """Return the next record, nothing if a flood overtook it, or None when there is none for now."""
        try:
            return self._read(self._descriptor, _RECORD_BYTES) or None
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno == errno.EPIPE:
                return b""
            raise

    def _line(self, record: bytes, offset_s: float) -> KernelLine | None:
        head = _HEAD.match(record[:128].decode("ascii", "replace"))
        if head is None:
            return None
        sequence, expected = int(head[2]), self._next_sequence
        if expected is not None:
            if sequence < expected:
                return None
            self.num_lost += sequence - expected
        self._next_sequence = sequence + 1
        if _MARK not in record:
            return None
        text = record[head.end() :].decode("ascii", "replace")[:MAX_TEXT]
        return KernelLine(int(head[3]) / 1e6 + offset_s, _ESCAPED.sub(_unescaped, text))


def _is_log(status: os.stat_result) -> bool:
    # Some containers put their console in its place: reading that would eat what people type.
    return not stat.S_ISCHR(status.st_mode) or status.st_rdev == _KMSG_DEVICE


def _unescaped(match: re.Match[str]) -> str:
    letter = chr(int(match[1], 16))
    return letter if letter.isprintable() and letter.isascii() else " "
