"""PCIe packets that had to be sent again: per minute, per lane, and per generation of the link.

A few replays are how PCIe mends itself, and a fast, wide link may have more of them (DCGM#184: one number for
all gave false alarms). The generation is the highest that card and slot can do: changing speed itself costs
replays, and a card at rest would be judged by the strictest row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "pcie-replays"
PER_MINUTE_AND_LANE: Final = {1: 0.15, 2: 0.3, 3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}
WINDOW_S: Final = 60.0
CLEAR_S: Final = 300.0
_MAX_CARDS: Final = 64
_MAX_SAMPLES: Final = 512
_MAX_GAP_WINDOWS: Final = 3.0
"""A longer pause (suspend, hung driver) starts the count anew: when its replays came nobody knows."""

MANY = Rule(
    NAME,
    "many",
    "more replays a minute and lane than 0.15/0.3/0.48/0.96/1.92/3.84 for Gen 1 to 6, times "
    "{replay_factor}, over a minute, for {replays_after} more",
    Severity.WARNING,
    Action.INSPECT,
    "DCGM; DCGM#184",
    advice="reseat the card, check riser and slot; a lower link generation in the BIOS often ends it",
    stand="replays_after",
    clear_s=CLEAR_S,
)


class Replays:
    """Remembers each card's counter over the last minute."""

    def __init__(self, factor: int, interval_s: float) -> None:
        self._factor = factor
        self._max_gap_s = max(WINDOW_S, interval_s) * _MAX_GAP_WINDOWS
        self._samples: dict[str, deque[tuple[float, int]]] = {}

    def __call__(self, card: Card) -> Iterator[Symptom]:
        """Take in the counter, and judge its rise once a minute of it is known."""
        count, info = card.reading.pcie_replays, card.info
        lanes = info.pcie_width_max or card.reading.pcie_width
        limit = PER_MINUTE_AND_LANE.get(info.pcie_gen_max or card.reading.pcie_gen or 0)
        if count is None or not lanes or limit is None:
            return
        per_minute = self._rate(info.uuid, count, card.now)
        borne = limit * lanes * self._factor
        if per_minute is not None and per_minute > borne:
            reason = f"{per_minute:.0f} PCIe replays a minute, and {borne:.1f} are borne on {lanes} lanes"
            yield Symptom(MANY, card.subject, reason, {"replays_per_minute": round(per_minute, 1)})

    def _rate(self, uuid: str, count: int, now: float) -> float | None:
        samples = self._samples.pop(uuid, None) or deque(maxlen=_MAX_SAMPLES)
        if samples and (count < samples[-1][1] or now - samples[-1][0] > self._max_gap_s):
            # The driver was loaded again, or nobody looked.
            samples.clear()
        samples.append((now, count))
        while len(samples) > 1 and samples[1][0] <= now - WINDOW_S:
            samples.popleft()
        self._samples[uuid] = samples
        while len(self._samples) > _MAX_CARDS:
            del self._samples[next(iter(self._samples))]
        passed_s = now - samples[0][0]
        return (count - samples[0][1]) * 60.0 / passed_s if passed_s >= WINDOW_S else None


def _start(config: Config) -> SeeCard:
    return Replays(config.health.replay_factor, config.gpu.interval_s)


CHECK = CardCheck(NAME, __doc__, (MANY,), _start)
