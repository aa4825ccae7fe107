"""PCIe packets that had to be sent again: per minute, per lane, and per generation of the link.

A few replays are how PCIe mends itself, and a fast, wide link may have more of them (DCGM#184: one number for
all gave false alarms). The generation is the highest that card and slot can do: changing speed itself costs
replays, and a card at rest would be judged by the strictest row.

Thresholds:

- ``many``: more replays a minute and lane than 0.15/0.3/0.48/0.96/1.92/3.84 for Gen 1 to 6, times 1, over a
  minute, for 1 min more. Keys: ``replay_factor``, ``replays_after``. Source: DCGM; DCGM#184.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rising import Rising
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "pcie-replays"
PER_MINUTE_AND_LANE: Final = {1: 0.15, 2: 0.3, 3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}
WINDOW_S: Final = 60.0
CLEAR_S: Final = 300.0

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
    """Judges each card's counter by its rise over the last minute."""

    def __init__(self, factor: int, interval_s: float) -> None:
        self._factor = factor
        self._rising = Rising(WINDOW_S, interval_s)

    def __call__(self, card: Card) -> Iterator[Symptom]:
        """Take in the counter, and judge its rise once a minute of it is known."""
        count, info = card.reading.pcie_replays, card.info
        lanes = info.pcie_width_max or card.reading.pcie_width
        limit = PER_MINUTE_AND_LANE.get(info.pcie_gen_max or card.reading.pcie_gen or 0)
        if count is None or not lanes or limit is None:
            return
        rate = self._rising.rate(info.uuid, count, card.now)
        borne = limit * lanes * self._factor
        if rate is not None and rate * 60 > borne:
            reason = f"{rate * 60:.0f} PCIe replays a minute, and {borne:.1f} are borne on {lanes} lanes"
            yield Symptom(MANY, card.subject, reason, {"replays_per_minute": round(rate * 60, 1)})


def _start(config: Config) -> SeeCard:
    return Replays(config.health.replay_factor, config.longest_look_s)


CHECK = CardCheck(NAME, __doc__, (MANY,), _start)
