"""The system out of descriptors or memory: said in one line, once a minute, with what to do."""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from typing import Any, Final

SILENCE_S: Final = 60.0
_ADVICE: Final = {
    errno.EMFILE: "this daemon has all the files open that it may: raise LimitNOFILE= of its unit",
    errno.ENFILE: "this host has no file left to open: see fs.file-max and who holds so many",
    errno.ENOBUFS: "the kernel has no buffers left",
    errno.ENOMEM: "the kernel has no memory left",
}

_log = logging.getLogger(__name__)


class Shortages:
    """Takes what the event loop could not deliver elsewhere; only a shortage is put into words.

    asyncio itself waits a second before it accepts again, and would log a trace each time.
    """

    def __init__(self) -> None:
        self._told_at: dict[int, float] = {}

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle one of the loop's errors."""
        fault = context.get("exception")
        number = fault.errno if isinstance(fault, OSError) else None
        if number is None or number not in _ADVICE:
            loop.default_exception_handler(context)
            return
        now = time.monotonic()
        if now - self._told_at.get(number, float("-inf")) >= SILENCE_S:
            self._told_at[number] = now
            _log.warning("connections wait: %s", _ADVICE[number])
