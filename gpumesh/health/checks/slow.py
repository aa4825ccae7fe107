"""A loaded card that stays far below its clocks and its power limit, and gives no reason for it.

Each reason that the driver gives is somebody's matter or nobody's fault: idle, power cap, clocks set by hand,
thermal and power slowdown (see ``clocks``). Without one, a card that works at half its clocks is stuck there,
most often until a reset. Full utilisation alone proves no load (one small kernel is enough), so both clocks
and power must be low. Where clocks are locked on purpose, set ``health.slow_clock`` to 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "slow"
LOADED_PERCENT: Final = 95
POWER_PERCENT: Final = 50
STAND_S: Final = 600.0
CLEAR_S: Final = 60.0

SLOW = Rule(
    NAME,
    "clocks",
    f"at {LOADED_PERCENT} % load or more, clock below health.slow_clock (50 %) of its highest and power "
    f"below {POWER_PERCENT} % of its limit, without any clocks event reason, for 10 min",
    Severity.WARNING,
    Action.RESET,
    "own judgement; open-gpu-kernel-modules#1010 shows the like for the PCIe link",
    advice="look at `nvidia-smi -q -d CLOCK,PERFORMANCE` for locked clocks; without any, reset the card",
    stand_s=STAND_S,
    clear_s=CLEAR_S,
)


def see(card: Card, slow_percent: int) -> Iterator[Symptom]:
    """Judge clock and power of a card at work, where it tells all that it takes to judge."""
    reading = card.reading
    clock, clock_max = reading.sm_clock_mhz, card.info.sm_clock_max_mhz
    power, limit = reading.power_w, reading.power_limit_w
    if clock is None or clock_max is None or power is None or limit is None:
        return
    is_loaded = (reading.utilization_gpu_percent or 0) >= LOADED_PERCENT
    is_low = clock * 100 < clock_max * slow_percent and power * 100 < limit * POWER_PERCENT
    if is_loaded and is_low and reading.clocks_event_reasons == 0:
        reached = f"{clock} of {clock_max} MHz and {power:.0f} of {limit:.0f} W"
        reason = f"{reached} under full load, and the card gives no reason"
        yield Symptom(SLOW, card.subject, reason, {"sm_clock_mhz": clock, "power_w": round(power, 1)})


def _start(config: Config) -> SeeCard:
    return lambda card: see(card, config.health.slow_percent)


CHECK = CardCheck(NAME, __doc__, (SLOW,), _start)
