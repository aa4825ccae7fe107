"""Hardware that slows a card down to protect it: too hot, or for a reason that it does not name.

Slowdown comes in bursts, so a look is no measure: a minute counts when any look in it shows the reason, and
most of the last ten minutes make a finding. Idle, power cap by software, application clocks, sync boost and
display clocks are how cards live and never a fault. Why clocks are low is told once, by the reason that says
most: heat before the power brake (``power-brake``), and both before the general bit, which stands beside
them.

Thresholds:

- ``thermal``: hardware thermal slowdown in 6 of the last 10 minutes. Keys: ``slowdown_minutes``. Source:
  gpud's buckets; nvidia_gpu_exporter alerts after 5 min.
- ``unexplained``: hardware slowdown, for neither heat nor power brake, in 6 of the last 10 minutes. Keys:
  ``slowdown_minutes``. Source: gpud: 6 of 10 one-minute buckets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.buckets import Buckets
from gpumesh.health.clock_reasons import HardwareCause, hardware_cause
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "hw-slowdown"
CLEAR_S: Final = 60.0

THERMAL = Rule(
    NAME,
    "thermal",
    "hardware thermal slowdown in {slowdown_minutes} of the last 10 minutes",
    Severity.WARNING,
    Action.INSPECT,
    "gpud's buckets; nvidia_gpu_exporter alerts after 5 min",
    advice="the card cuts its clocks by half or more to cool: look at fans, dust and airflow",
    clear_s=CLEAR_S,
)
UNEXPLAINED = Rule(
    NAME,
    "unexplained",
    "hardware slowdown, for neither heat nor power brake, in {slowdown_minutes} of the last 10 minutes",
    Severity.WARNING,
    Action.INSPECT,
    "gpud: 6 of 10 one-minute buckets",
    advice="check cooling, power supply and cables",
    clear_s=CLEAR_S,
)
_CAUSES: Final = (
    (HardwareCause.THERMAL, THERMAL, "hardware thermal slowdown"),
    (HardwareCause.UNEXPLAINED, UNEXPLAINED, "hardware slowdown"),
)


class Slowdown:
    """Counts, for each card and cause, the recent minutes in which the hardware slowed it down."""

    def __init__(self, interval_s: float, least_hit: int) -> None:
        self._least_hit = least_hit
        self._buckets = Buckets(interval_s)

    def __call__(self, card: Card) -> Iterator[Symptom]:
        """Take in this look's reasons and say which have stood for most of the last ten buckets."""
        reasons = card.reading.clocks_event_reasons
        if reasons is None:
            return
        seen = hardware_cause(reasons)
        for cause, rule, words in _CAUSES:
            key = f"{card.info.uuid}/{rule.code}"
            num_hit = self._buckets.num_hit(key, card.now, is_hit=cause is seen)
            if num_hit >= self._least_hit:
                reason = f"{words} {self._buckets.words(num_hit)}"
                yield Symptom(rule, card.subject, reason, {"reasons": reasons, "buckets": num_hit})


def _start(config: Config) -> SeeCard:
    return Slowdown(config.longest_look_s, config.health.slowdown_minutes)


CHECK = CardCheck(NAME, __doc__, (THERMAL, UNEXPLAINED), _start)
