"""How long a look at all cards takes: a slow driver is told before it counts as hung.

Without persistence mode the driver starts each card for every look and a call can take seconds
(netdata#14522).

Thresholds:

- ``slow``: a look takes more than 5 s, or more than half of gpu.deadline, for 1 min. Keys: ``slow_look``,
  ``slow_look_after``. Source: nvidia_gpu_exporter: slow above 5 s; netdata#14522.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import HOST, HostCheck, Look, Rule, SeeHost, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "probe"
CLEAR_S: Final = 60.0

SLOW = Rule(
    NAME,
    "slow",
    "a look takes more than {slow_look}, or more than half of gpu.deadline, for {slow_look_after}",
    Severity.INFO,
    Action.CONFIGURE,
    "nvidia_gpu_exporter: slow above 5 s; netdata#14522",
    advice="raise gpu.deadline and gpu.interval, or find out what holds the driver up",
    stand="slow_look_after",
    clear_s=CLEAR_S,
)
_PERSISTENCE: Final = (
    "switch persistence mode on (systemctl enable --now nvidia-persistenced): without it the driver starts "
    "the card for every look"
)


def see(look: Look) -> Iterator[Symptom]:
    """Judge the duration of a look that ended."""
    limit_s = min(look.config.health.slow_look_s, look.config.gpu.deadline_s / 2)
    taken_s = look.probe.duration_s
    if taken_s > limit_s:
        readings = [state.reading for state in look.stock.seen.values() if state.reading is not None]
        is_unpersisted = any(reading.persistence is False for reading in readings)
        reason = f"one look at the cards takes {taken_s:.1f} s"
        evidence = {"duration_s": round(taken_s, 2), "limit_s": limit_s}
        yield Symptom(SLOW, HOST, reason, evidence, advice=_PERSISTENCE if is_unpersisted else "")


def _start(_config: Config) -> SeeHost:
    # A look that did not end has no duration, and no driver takes no time.
    return lambda look: None if look.probe.is_hung or look.probe.driver is None else see(look)


CHECK = HostCheck(NAME, __doc__, (SLOW,), _start)
