"""The brake on mass failure: when most of the fleet seems to fail at once, the observer doubts itself.

Kubernetes slows evictions once 55 % of a zone is unhealthy; here an observer that saw more than half of its
view fail within one lease places nothing new until the picture clears or has lasted.
"""

from __future__ import annotations


class Brake:
    """Instants at which hosts failed, and whether they make a mass failure."""

    def __init__(self, *, window_s: float, hold_s: float) -> None:
        self._window_s = window_s
        self._hold_s = hold_s
        self._failed_at: dict[str, float] = {}
        self._burst_at: float | None = None
        """When the mass failure last grew; None: there is none."""

    def handle_failed(self, host_id: str, now: float) -> None:
        """Note that a host failed."""
        self._failed_at[host_id] = now

    def handle_back(self, host_id: str) -> None:
        """Note that a host is back, left, or forgotten."""
        self._failed_at.pop(host_id, None)

    def is_on(self, num_hosts: int, now: float) -> bool:
        """Tell whether the brake holds, ``num_hosts`` being all hosts in the view that did not say goodbye.

        It goes on when more than half of those not already failed before fail within one window. It goes off
        when no more than half are failed, or once nothing more failed for the hold time.
        """
        recent = [at for at in self._failed_at.values() if now - at <= self._window_s]
        num_standing = num_hosts - (len(self._failed_at) - len(recent))
        if 2 * len(recent) > num_standing:
            self._burst_at = max(recent)
        elif self._burst_at is not None and 2 * len(self._failed_at) <= num_hosts:
            self._burst_at = None
        if self._burst_at is not None and now - self._burst_at > self._hold_s:
            self._burst_at = None
        return self._burst_at is not None

    def next_deadline(self) -> float | None:
        """Return when the hold ends by itself, None while the brake is off."""
        return None if self._burst_at is None else self._burst_at + self._hold_s
