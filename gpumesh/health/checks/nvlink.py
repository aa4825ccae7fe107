"""NVLinks that were up and are down, and links that carry their traffic only with errors.

A link that was never seen up is not down: a card without its bridge (NVSentinel#1481, DCGM#49) and one whose
board leads out only some of its links (azurehpc-health-checks#162: 12 of 18) report theirs as inactive and
are well. What was up is remembered while the daemon runs. Where cards sit on NVLink switches each has all its
links, so there a card with fewer than another of its kind on the same host is told too, although nobody saw
them go (gpud#1085: all inactive, and healthy). Links are asked for once in a while, errors at each look.

Thresholds:

- ``down``: a link that was seen up is down, for 1 min. Keys: ``nvlink_down_after``. Source: DCGM; azhpc-
  diagnostics#73. Links never seen up are left alone: NVSentinel#1481, DCGM#49, azurehpc-health-checks#162.
- ``fewer``: in an NVLink fabric, fewer links up than another card of its model here, for 1 min. Keys:
  ``nvlink_down_after``. Source: gpud#1085.
- ``crc``: 100 CRC errors a second or more, over a minute, for 1 min more. Keys: ``nvlink_crc``,
  ``nvlink_errors_after``. Source: DCGM: fewer are how links live.
- ``replays``: 1 replay a minute or more, over a minute, for 1 min more. Keys: ``nvlink_replays``,
  ``nvlink_errors_after``. Source: DCGM fails at the first within a minute.
- ``recoveries``: 1 recovery a minute or more, over a minute, for 1 min more. Keys: ``nvlink_recoveries``,
  ``nvlink_errors_after``. Source: DCGM fails at the first within a minute.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpumesh.config import Config, HealthConfig
from gpumesh.health.rising import Rising
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Scalar, Severity

NAME: Final = "nvlink"
WINDOW_S: Final = 60.0
CLEAR_S: Final = 300.0
_MAX_CARDS: Final = 64
_ADVICE: Final = (
    "let the work on the cards that it connects end, then reset them; if it stays, look at the bridge or the "
    "baseboard (`nvidia-smi nvlink -s`, Fabric Manager's log)"
)
_ERRORS: Final = "look at `nvidia-smi nvlink -e`; reseat the bridge, or have the baseboard looked at"

DOWN = Rule(
    NAME,
    "down",
    "a link that was seen up is down, for {nvlink_down_after}",
    Severity.WARNING,
    Action.RESET,
    "DCGM; azhpc-diagnostics#73. Links never seen up are left alone: NVSentinel#1481, DCGM#49, "
    "azurehpc-health-checks#162",
    advice=_ADVICE,
    stand="nvlink_down_after",
    clear_s=60.0,
)
FEWER = Rule(
    NAME,
    "fewer",
    "in an NVLink fabric, fewer links up than another card of its model here, for {nvlink_down_after}",
    Severity.WARNING,
    Action.RESET,
    "gpud#1085",
    advice=_ADVICE,
    stand="nvlink_down_after",
    clear_s=60.0,
)
CRC = Rule(
    NAME,
    "crc",
    "{nvlink_crc} CRC errors a second or more, over a minute, for {nvlink_errors_after} more",
    Severity.WARNING,
    Action.INSPECT,
    "DCGM: fewer are how links live",
    advice=_ERRORS,
    stand="nvlink_errors_after",
    clear_s=CLEAR_S,
)
REPLAYS = Rule(
    NAME,
    "replays",
    "{nvlink_replays} replay a minute or more, over a minute, for {nvlink_errors_after} more",
    Severity.WARNING,
    Action.INSPECT,
    "DCGM fails at the first within a minute",
    advice=_ERRORS,
    stand="nvlink_errors_after",
    clear_s=CLEAR_S,
)
RECOVERIES = Rule(
    NAME,
    "recoveries",
    "{nvlink_recoveries} recovery a minute or more, over a minute, for {nvlink_errors_after} more",
    Severity.WARNING,
    Action.INSPECT,
    "DCGM fails at the first within a minute",
    advice=_ERRORS,
    stand="nvlink_errors_after",
    clear_s=CLEAR_S,
)


@dataclass(frozen=True, slots=True)
class _Counter:
    field: str
    """Of the reading."""
    words: str
    rule: Rule
    least: float
    """What is too many, in ``per_s`` seconds."""
    per_s: float
    unit: str


def _counters(thresholds: HealthConfig) -> tuple[_Counter, ...]:
    crc, replays, recoveries = thresholds.nvlink_crc, thresholds.nvlink_replays, thresholds.nvlink_recoveries
    return (
        _Counter("nvlink_crc_flit_errors", "flow-control CRC errors", CRC, crc, 1.0, "second"),
        _Counter("nvlink_crc_data_errors", "data CRC errors", CRC, crc, 1.0, "second"),
        _Counter("nvlink_replay_errors", "replays", REPLAYS, replays, 60.0, "minute"),
        _Counter("nvlink_recovery_errors", "recoveries", RECOVERIES, recoveries, 60.0, "minute"),
    )


class NvLinks:
    """Remembers which links of each card were up, how many there are now, and its error counters."""

    def __init__(self, config: Config) -> None:
        self._counters = _counters(config.health)
        self._rising = Rising(WINDOW_S, config.longest_look_s)
        self._seen_up: dict[str, frozenset[int]] = {}
        self._num_up: dict[str, tuple[str, int, float]] = {}
        """By UUID: the card's model, how many links are up, and when that was seen."""
        self._fresh_s = max(WINDOW_S, config.longest_look_s)

    def __call__(self, card: Card) -> Iterator[Symptom]:
        """Take in one card's links and errors."""
        yield from self._links(card)
        for counter in self._counters:
            count: int | None = getattr(card.reading, counter.field)
            if count is not None:
                yield from self._errors(card, counter, count)

    def _links(self, card: Card) -> Iterator[Symptom]:
        links, uuid = card.reading.nvlinks, card.info.uuid
        if links is None:
            return
        up = frozenset(number for number, is_up in enumerate(links) if is_up)
        seen_up = self._seen_up.pop(uuid, frozenset()) | up
        self._seen_up[uuid] = seen_up
        while len(self._seen_up) > _MAX_CARDS:
            del self._seen_up[next(iter(self._seen_up))]
        down = sorted(number for number in seen_up if number < len(links) and links[number] is False)
        evidence: dict[str, Scalar] = {"links_up": len(up), "links_down": " ".join(map(str, down))}
        if down:
            named = "NVLink " + ", ".join(map(str, down))
            reason = f"{named} {'is' if len(down) == 1 else 'are'} down, and up before; {len(up)} are up"
            yield Symptom(DOWN, card.subject, reason, evidence)
        most = self._most_of_its_kind(card, len(up))
        if not down and len(up) < most and card.reading.fabric_state is not None:
            reason = f"{len(up)} NVLinks are up; another {card.info.name} here has {most}"
            yield Symptom(FEWER, card.subject, reason, evidence)

    def _most_of_its_kind(self, card: Card, num_up: int) -> int:
        """Return the most links up of any card of this model that was looked at of late."""
        self._num_up.pop(card.info.uuid, None)
        self._num_up[card.info.uuid] = (card.info.name, num_up, card.now)
        while len(self._num_up) > _MAX_CARDS:
            del self._num_up[next(iter(self._num_up))]
        return max(
            number
            for name, number, at in self._num_up.values()
            if name == card.info.name and card.now - at <= self._fresh_s
        )

    def _errors(self, card: Card, counter: _Counter, count: int) -> Iterator[Symptom]:
        rate = self._rising.rate(f"{card.info.uuid}/{counter.field}", count, card.now)
        if rate is not None and rate * counter.per_s >= counter.least:
            number = round(rate * counter.per_s, 1)
            reason = f"{number:g} NVLink {counter.words} a {counter.unit}"
            yield Symptom(
                counter.rule,
                card.subject,
                reason,
                {counter.field: count, f"per_{counter.unit}": number},
                item=counter.field,
            )


def _start(config: Config) -> SeeCard:
    return NvLinks(config)


CHECK = CardCheck(NAME, __doc__, (DOWN, FEWER, CRC, REPLAYS, RECOVERIES), _start)
