"""When the owner lends the cards: always, while nobody uses them, or within hours.

:func:`observe` and :func:`lend` are pure; :class:`Sharing` keeps the usage between looks. The time of day
comes in as minutes since local midnight and the processes on the cards as names, so every case can be tried
without a clock or a driver. An operator's cordon or drain outranks what is decided here. Any process that is
not ignored counts as a person's: work that the fleet itself starts belongs into ``ignore_processes``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from gpumesh.config import SharingConfig
from gpumesh.errors import ConfigError
from gpumesh.model import Admission

_RANGE: Final = re.compile(r"\s*(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})\s*")
_HOUR_MINUTES: Final = 60
DAY_MINUTES: Final = 24 * _HOUR_MINUTES
_OPERATOR: Final = (Admission.DRAINING, Admission.CORDONED)


class Occupant(Protocol):
    """A process on a card."""

    @property
    def name(self) -> str | None:
        """Its program, as a path or a name; None if that cannot be told."""
        ...


class Occupancy(Protocol):
    """What a look at one card shows of its processes."""

    @property
    def processes(self) -> Sequence[Occupant] | None:
        """None where the driver cannot list them."""
        ...


class Card(Protocol):
    """One card in a look."""

    @property
    def reading(self) -> Occupancy | None:
        """None if it could not be read."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether it cannot be reached at all, hence not be used either."""
        ...


class Seen(Protocol):
    """One look at all cards: the health layer's probe fits."""

    @property
    def devices(self) -> Sequence[Card]:
        """The cards; empty when no driver answered."""
        ...


@dataclass(frozen=True, slots=True)
class Usage:
    """Whether people use the cards, and since when they do not."""

    used_by: str = "not looked at yet"
    """The program seen last, or why use must be assumed."""
    is_used: bool = True
    """Until a look shows otherwise: unknown is not idle."""
    idle_at: float | None = None
    """When the cards were first seen free; None while they are used."""


class Sharing:
    """The owner's sharing rule over the course of looks. Errors: ConfigError for impossible hours."""

    def __init__(self, config: SharingConfig) -> None:
        self._config = config
        self._usage = Usage()
        if config.mode == "schedule":
            parse_hours(config.hours)

    def judge(self, seen: Seen, local: datetime, now: float) -> tuple[Admission, str]:
        """Return what the rule says after a look, at this local time of day, and why."""
        self._usage = observe(self._usage, _processes(seen), self._config.ignore_processes, now)
        return lend(self._config, self._usage, local.hour * _HOUR_MINUTES + local.minute, now)


def observe(
    before: Usage, processes: Sequence[str | None] | None, ignored: Sequence[str], now: float
) -> Usage:
    """Return the usage after a look that found these processes on all cards together.

    A name may be a path or None (unknown, counts as a person's); no list at all means that the driver could
    not say, which counts as use.
    """
    if processes is None:
        return Usage("the driver cannot list the processes on the cards")
    for name in processes:
        if name is None or not _is_ignored(name, ignored):
            return Usage(f"{_base(name) if name else 'a program of unknown name'} runs on a card")
    idle_at = now if before.is_used or before.idle_at is None else before.idle_at
    return Usage("", is_used=False, idle_at=idle_at)


def lend(config: SharingConfig, usage: Usage, minute_of_day: int, now: float) -> tuple[Admission, str]:
    """Return what the owner's sharing mode says now, and why. Errors: ConfigError for impossible hours."""
    if config.mode == "idle":
        return _lend_idle(config, usage, now)
    if config.mode == "schedule" and not is_within(parse_hours(config.hours), minute_of_day):
        return Admission.OFF_HOURS, f"lent only within {config.hours}, local time"
    return Admission.OPEN, ""


def outrank(
    operator: Admission, operator_reason: str, lent: Admission, lent_reason: str
) -> tuple[Admission, str]:
    """Return the operator's drain or cordon if there is one, else what the sharing mode says."""
    if operator in _OPERATOR:
        return operator, operator_reason
    return lent, lent_reason


def parse_hours(hours: str) -> tuple[tuple[int, int], ...]:
    """Return ranges of minutes since midnight; the end of one that crosses midnight is below its start.

    Errors: ConfigError for a time that no clock shows.
    """
    ranges = []
    for part in hours.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ConfigError(f'sharing.hours: {part!r} is not a range of local time such as "22:00-07:00"')
        start, end = _minute(match[1], match[2], part), _minute(match[3], match[4], part)
        ranges.append((start, end))
    return tuple(ranges)


def is_within(ranges: Sequence[tuple[int, int]], minute_of_day: int) -> bool:
    """Tell whether a minute lies in one of the ranges, each from its start up to, not including, its end.

    Equal start and end mean the whole day.
    """
    for start, end in ranges:
        if start < end and start <= minute_of_day < end:
            return True
        if start >= end and (minute_of_day >= start or minute_of_day < end):
            return True
    return False


def _processes(seen: Seen) -> list[str | None] | None:
    """Return the names on all cards that can be reached; None as soon as one of them cannot say."""
    names: list[str | None] = []
    cards = [card for card in seen.devices if not card.is_lost]
    if not cards:
        return None
    for card in cards:
        if card.reading is None or card.reading.processes is None:
            return None
        names.extend(process.name for process in card.reading.processes)
    return names


def _lend_idle(config: SharingConfig, usage: Usage, now: float) -> tuple[Admission, str]:
    if usage.is_used or usage.idle_at is None:
        return Admission.OCCUPIED, usage.used_by
    left_s = usage.idle_at + config.idle_after_s - now
    if left_s > 0:
        return Admission.OCCUPIED, f"its cards have not been free for {config.idle_after_s:g} s yet"
    return Admission.OPEN, ""


def _is_ignored(name: str, ignored: Sequence[str]) -> bool:
    return name in ignored or _base(name) in ignored


def _base(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def _minute(hour: str, minute: str, part: str) -> int:
    total = int(hour) * _HOUR_MINUTES + int(minute)
    if int(minute) >= _HOUR_MINUTES or total > DAY_MINUTES:
        raise ConfigError(f'sharing.hours: {part!r} holds a time beyond "24:00"')
    return total
