"""How long until the next look: sooner while a fault is about to show, later at rest or where looks are slow.

A look costs driver time and can cost a player a frame (nvidia_gpu_exporter#90); a driver without persistence
mode takes seconds for one (netdata#14522). A host on which nothing computes and nothing is wrong can wait;
one whose card has just begun to look ill cannot.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpumesh.config import Config
from gpumesh.health.devices import DeviceState, Probe
from gpumesh.model import Finding, HealthReport, Severity

QUIET_S: Final = 60.0
"""How long a host must have been at rest before the time between looks grows."""
GROWTH: Final = 1.25
SLOW_SHARE: Final = 0.1
"""A look takes no more than this share of the time between two looks, as far as the longest allows."""


class Cadence:
    """The time between looks, from what each one showed; within the bounds that ``config`` names."""

    def __init__(self, config: Config) -> None:
        self._shortest_s = config.shortest_look_s
        self._normal_s = config.gpu.interval_s
        self._resting_s = config.resting_look_s
        self._longest_s = config.longest_look_s
        self._pause_s = self._normal_s
        self._quiet_since: float | None = None

    @property
    def pause_s(self) -> float:
        """The time from the last look's begin to the next one's."""
        return self._pause_s

    def handle_look(self, report: HealthReport, probe: Probe, now: float, *, is_unsettled: bool) -> float:
        """Take in what a look showed; return the seconds from its begin to the next one's.

        ``is_unsettled``: a fault was seen that is soon to be told, or one that was told is going.
        """
        is_quiet = not is_unsettled and _is_at_rest(report, probe)
        self._quiet_since = (now if self._quiet_since is None else self._quiet_since) if is_quiet else None
        if is_unsettled:
            pause_s = self._shortest_s
        elif self._quiet_since is not None and now - self._quiet_since >= QUIET_S:
            pause_s = min(max(self._pause_s, self._normal_s) * GROWTH, self._resting_s)
        else:
            pause_s = self._normal_s
        # A driver that hangs is not asked: what its look took is no cost.
        taken_s = 0.0 if probe.is_hung else probe.duration_s
        self._pause_s = min(max(pause_s, taken_s / SLOW_SHARE), self._longest_s)
        return self._pause_s

    def handle_failure(self) -> float:
        """Take it that a look told nothing; return the seconds until the next one."""
        self._quiet_since, self._pause_s = None, self._normal_s
        return self._pause_s


def _is_at_rest(report: HealthReport, probe: Probe) -> bool:
    if probe.driver is None or probe.is_hung or not all(_rests(state) for state in probe.devices):
        return False
    return not _has_trouble(report.findings) and not any(_has_trouble(gpu.findings) for gpu in report.gpus)


def _rests(state: DeviceState) -> bool:
    if state.is_resting:
        return True
    reading = state.reading
    if reading is None or state.error:
        return False
    is_used = any("compute" in process.kind for process in reading.processes or ())
    return not is_used and not reading.utilization_gpu_percent


def _has_trouble(findings: Iterable[Finding]) -> bool:
    return any(finding.severity is not Severity.INFO for finding in findings)
