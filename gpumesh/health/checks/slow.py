"""A loaded card that stays far below its clocks and its power limit, and gives no reason for it.

Each reason that the driver gives is somebody's matter or nobody's fault: idle, power cap, clocks set by hand,
thermal and power slowdown (``hw-slowdown``, ``power-brake``, ``sw-thermal``). Without one, a card that works
at half its clocks is stuck there, most often until a reset. Full utilisation alone proves no load (one small
kernel is enough), so both clocks and power must be low. Where clocks are locked on purpose, set
``health.slow_clock`` to 0.

Thresholds:

- ``clocks``: at 95 % load or more, clock below 50 % of its highest and power below 50 % of its limit, without
  any clocks event reason, for 10 min. Keys: ``slow_load``, ``slow_clock``, ``slow_power``, ``slow_after``.
  Source: own judgement; open-gpu-kernel-modules#1010 shows the like for the PCIe link.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config, HealthConfig
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "slow"
CLEAR_S: Final = 60.0

SLOW = Rule(
    NAME,
    "clocks",
    "at {slow_load} % load or more, clock below {slow_clock} % of its highest and power below {slow_power} % "
    "of its limit, without any clocks event reason, for {slow_after}",
    Severity.WARNING,
    Action.RESET,
    "own judgement; open-gpu-kernel-modules#1010 shows the like for the PCIe link",
    advice="look at `nvidia-smi -q -d CLOCK,PERFORMANCE` for locked clocks; without any, reset the card",
    stand="slow_after",
    clear_s=CLEAR_S,
)


def see(card: Card, thresholds: HealthConfig) -> Iterator[Symptom]:
    """Judge clock and power of a card at work, where it tells all that it takes to judge."""
    reading = card.reading
    clock, clock_max = reading.sm_clock_mhz, card.info.sm_clock_max_mhz
    power, limit = reading.power_w, reading.power_limit_w
    if clock is None or clock_max is None or power is None or limit is None:
        return
    is_loaded = (reading.utilization_gpu_percent or 0) >= thresholds.slow_load
    is_clock_low = clock * 100 < clock_max * thresholds.slow_percent
    is_low = is_clock_low and power * 100 < limit * thresholds.slow_power
    if is_loaded and is_low and reading.clocks_event_reasons == 0:
        reached = f"{clock} of {clock_max} MHz and {power:.0f} of {limit:.0f} W"
        reason = f"{reached} under full load, and the card gives no reason"
        yield Symptom(SLOW, card.subject, reason, {"sm_clock_mhz": clock, "power_w": round(power, 1)})


def _start(config: Config) -> SeeCard:
    return lambda card: see(card, config.health)


CHECK = CardCheck(NAME, __doc__, (SLOW,), _start)
