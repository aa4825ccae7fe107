"""Why the clocks are lower than they could be: hardware that protects itself, told from a card that rests.

Idle, power cap by software, application clocks, sync boost and display clocks are how cards live and never
a fault. Hardware slowdown comes in bursts, so a look is no measure: a minute counts when any look in it
shows the reason, and most of the last ten minutes make a finding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "clocks"
HW_SLOWDOWN: Final = 0x08
SW_THERMAL: Final = 0x20
HW_THERMAL: Final = 0x40
HW_POWER_BRAKE: Final = 0x80
NUM_BUCKETS: Final = 10
BUCKET_S: Final = 60.0
CLEAR_S: Final = 60.0
_MAX_CARDS: Final = 128

THERMAL = Rule(
    NAME,
    "hw-thermal",
    "hardware thermal slowdown in {slowdown_minutes} of the last 10 minutes",
    Severity.WARNING,
    Action.INSPECT,
    "gpud's buckets; nvidia_gpu_exporter alerts after 5 min",
    advice="the card cuts its clocks by half or more to cool: look at fans, dust and airflow",
    clear_s=CLEAR_S,
)
BRAKE = Rule(
    NAME,
    "hw-power-brake",
    "power brake in {slowdown_minutes} of the last 10 minutes",
    Severity.WARNING,
    Action.INSPECT,
    "gpud's buckets; nvidia_gpu_exporter alerts after 5 min",
    advice="the board or the power supply asks the card to slow down: check the supply and its cables",
    clear_s=CLEAR_S,
)
SLOWDOWN = Rule(
    NAME,
    "hw-slowdown",
    "hardware slowdown, without one of the two reasons above, in {slowdown_minutes} of the last 10 minutes",
    Severity.WARNING,
    Action.INSPECT,
    "gpud: 6 of 10 one-minute buckets",
    advice="check cooling, power supply and cables",
    clear_s=CLEAR_S,
)
SOFT_THERMAL = Rule(
    NAME,
    "sw-thermal",
    "software thermal slowdown for {soft_thermal_after}",
    Severity.WARNING,
    Action.INSPECT,
    "nvidia_gpu_exporter",
    advice="the driver lowers clocks to hold the card's temperature: work runs slower until it is cooler",
    stand="soft_thermal_after",
    clear_s=CLEAR_S,
)

_WORDS: Final = {
    THERMAL.code: "hardware thermal slowdown",
    BRAKE.code: "power brake",
    SLOWDOWN.code: "hardware slowdown",
}


class Clocks:
    """Counts, for each card and reason, the recent minutes in which the reason was seen.

    With looks further apart than a minute a bucket is one look long, or ten of them could never be filled.
    """

    def __init__(self, interval_s: float, least_hit: int) -> None:
        self._least_hit = least_hit
        self._bucket_s = max(BUCKET_S, interval_s)
        self._hits: dict[tuple[str, str], deque[int]] = {}

    def __call__(self, card: Card) -> Iterator[Symptom]:
        """Take in this look's reasons and say which have stood for most of the last ten buckets."""
        reasons = card.reading.clocks_event_reasons
        if reasons is None:
            return
        bucket = int(card.now // self._bucket_s)
        for rule in (THERMAL, BRAKE, SLOWDOWN):
            num_hit = self._count(card.info.uuid, rule, bucket, is_hit=rule is _hardware_rule(reasons))
            if num_hit >= self._least_hit:
                minutes = round(NUM_BUCKETS * self._bucket_s / 60)
                reason = f"{_WORDS[rule.code]} in {num_hit} of {NUM_BUCKETS} parts of the last {minutes} min"
                yield Symptom(rule, card.subject, reason, {"reasons": reasons, "buckets": num_hit})
        if reasons & SW_THERMAL:
            reason = f"software thermal slowdown at {card.reading.temperature_c} °C"
            yield Symptom(SOFT_THERMAL, card.subject, reason, {"reasons": reasons})

    def _count(self, uuid: str, rule: Rule, bucket: int, *, is_hit: bool) -> int:
        hits = self._hits.pop((uuid, rule.code), None)
        if hits is None and not is_hit:
            return 0
        hits = deque(hits or (), maxlen=NUM_BUCKETS)
        if is_hit and (not hits or hits[-1] != bucket):
            hits.append(bucket)
        while hits and hits[0] <= bucket - NUM_BUCKETS:
            hits.popleft()
        if hits:
            self._hits[uuid, rule.code] = hits
            while len(self._hits) > _MAX_CARDS:
                del self._hits[next(iter(self._hits))]
        return len(hits)


def _hardware_rule(reasons: int) -> Rule | None:
    if reasons & HW_THERMAL:
        return THERMAL
    if reasons & HW_POWER_BRAKE:
        return BRAKE
    return SLOWDOWN if reasons & HW_SLOWDOWN else None


def _start(config: Config) -> SeeCard:
    return Clocks(config.longest_look_s, config.health.slowdown_minutes)


CHECK = CardCheck(NAME, __doc__, (THERMAL, BRAKE, SLOWDOWN, SOFT_THERMAL), _start)
