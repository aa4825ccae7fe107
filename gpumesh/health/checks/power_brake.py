"""The power brake: the board or the power supply tells the card from outside to slow down at once.

It comes in bursts as every hardware slowdown does and is counted likewise (``hw-slowdown``). Heat, where the
card names it too, is told instead. A power cap that software set is no brake and never a fault.

Thresholds:

- ``slowdown``: power brake in 6 of the last 10 minutes. Keys: ``slowdown_minutes``. Source: gpud's buckets;
  nvidia_gpu_exporter alerts after 5 min.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.buckets import Buckets
from gpumesh.health.clock_reasons import HardwareCause, hardware_cause
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "power-brake"
CLEAR_S: Final = 60.0

BRAKED = Rule(
    NAME,
    "slowdown",
    "power brake in {slowdown_minutes} of the last 10 minutes",
    Severity.WARNING,
    Action.INSPECT,
    "gpud's buckets; nvidia_gpu_exporter alerts after 5 min",
    advice="the board or the power supply asks the card to slow down: check the supply and its cables",
    clear_s=CLEAR_S,
)


class PowerBrake:
    """Counts, for each card, the recent minutes in which the brake was on."""

    def __init__(self, interval_s: float, least_hit: int) -> None:
        self._least_hit = least_hit
        self._buckets = Buckets(interval_s)

    def __call__(self, card: Card) -> Iterator[Symptom]:
        """Take in this look's reasons and say whether most of the last ten buckets had the brake on."""
        reasons = card.reading.clocks_event_reasons
        if reasons is None:
            return
        is_braked = hardware_cause(reasons) is HardwareCause.POWER_BRAKE
        num_hit = self._buckets.num_hit(card.info.uuid, card.now, is_hit=is_braked)
        if num_hit >= self._least_hit:
            reason = f"power brake {self._buckets.words(num_hit)}"
            yield Symptom(BRAKED, card.subject, reason, {"reasons": reasons, "buckets": num_hit})


def _start(config: Config) -> SeeCard:
    return PowerBrake(config.longest_look_s, config.health.slowdown_minutes)


CHECK = CardCheck(NAME, __doc__, (BRAKED,), _start)
