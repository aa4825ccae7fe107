"""What systemd is told: ready, status, reloading, stopping, and that the engine still makes progress."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

_USEC_PER_S: Final = 1_000_000


class Notifier:
    """sd_notify(3) for one daemon; silent where no ``NOTIFY_SOCKET`` is set."""

    def __init__(self, send: Callable[[str], None] | None = None, watchdog_s: float | None = None) -> None:
        self._send = send or _sdnotify()
        self._watchdog_s = watchdog_s if watchdog_s is not None else watchdog_interval_s()
        self._fed_at = float("-inf")
        self._status = ""

    def ready(self) -> None:
        """Say that the daemon is up."""
        self._send("READY=1")

    def status(self, text: str) -> None:
        """Say one line for ``systemctl status``; unchanged lines are not repeated."""
        if text != self._status:
            self._status = text
            self._send(f"STATUS={text}")

    def reloading(self) -> None:
        """Say that the configuration is being read again; :meth:`ready` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Say that the daemon is on its way out."""
        self._send("STOPPING=1")

    def feed_watchdog(self, now: float) -> None:
        """Tell systemd that the engine made progress, at most four times per watchdog interval."""
        if self._watchdog_s is not None and now - self._fed_at >= self._watchdog_s / 4:
            self._fed_at = now
            self._send("WATCHDOG=1")


def watchdog_interval_s(environment: dict[str, str] | None = None) -> float | None:
    """Return WatchdogSec as systemd passed it to this process, or None."""
    source = os.environ if environment is None else environment
    try:
        interval_s = int(source["WATCHDOG_USEC"]) / _USEC_PER_S
        is_mine = int(source.get("WATCHDOG_PID", os.getpid())) == os.getpid()
    except (KeyError, ValueError):
        return None
    return interval_s if is_mine and interval_s > 0 else None


def _sdnotify() -> Callable[[str], None]:
    if "NOTIFY_SOCKET" not in os.environ:
        return lambda _: None
    import sdnotify  # noqa: PLC0415 - only under systemd

    notifier = sdnotify.SystemdNotifier()
    if notifier.socket is not None:
        # A systemd that stands still must not stop the heartbeats; what it does not take is lost.
        notifier.socket.setblocking(False)  # noqa: FBT003 - the standard library's own signature
    notify: Callable[[str], None] = notifier.notify
    return notify
