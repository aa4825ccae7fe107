"""What is really so in a simulated world, against which each host's belief is held."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Ending(Enum):
    """How a daemon run ended."""

    CRASHED = "crashed"
    """Without a word; a restart under a new epoch ends the old one so, too."""
    LEFT = "left"
    """It said goodbye."""


@dataclass(slots=True)
class Life:
    """One run of one host's daemon."""

    number: int
    host_id: str
    epoch: int
    began_at: float
    ended_at: float | None = None
    ending: Ending | None = None


@dataclass(slots=True)
class Separation:
    """A time during which the network was partitioned."""

    groups: tuple[frozenset[int], ...]
    began_at: float
    ended_at: float | None = None

    def parts(self, first: int, second: int) -> bool:
        """Whether it cut these two hosts off from each other."""
        sides = [index for index, group in enumerate(self.groups) if first in group or second in group]
        return len(sides) > 1


class Truth:
    """Who lives, who left, who is impaired, who was cut off from whom; times are the world's seconds."""

    GRACE_S = 15.0
    """How long after a partition or an impairment its consequences are still excused."""

    def __init__(self) -> None:
        self.lives: list[Life] = []
        self._life_of: dict[tuple[str, int], Life] = {}
        self._latest: dict[int, Life] = {}
        self._separations: list[Separation] = []
        self._impaired: dict[int, dict[str, float | None]] = {}
        self._impaired_since: dict[int, float] = {}

    def begin(self, number: int, host_id: str, epoch: int, now: float) -> None:
        """Note that a daemon started."""
        life = Life(number, host_id, epoch, now)
        self.lives.append(life)
        self._life_of[(host_id, epoch)] = life
        self._latest[number] = life

    def end(self, number: int, ending: Ending, now: float) -> None:
        """Note that a host's daemon ended; only the first word counts."""
        life = self._latest[number]
        if life.ended_at is None:
            life.ended_at, life.ending = now, ending

    def latest(self, number: int) -> Life | None:
        """Return the host's newest run."""
        return self._latest.get(number)

    def life(self, host_id: str, epoch: int) -> Life | None:
        """Return one run of a host, or None if there never was such a one."""
        return self._life_of.get((host_id, epoch))

    def impair(self, numbers: Iterable[int], now: float, cause: str = "") -> None:
        """Note that these hosts are no longer healthy: stopped, starved, or on a bad link of their own."""
        for number in numbers:
            if not self.is_impaired(number, now):
                self._impaired_since[number] = now
            self._impaired.setdefault(number, {})[cause] = None

    def repair(self, numbers: Iterable[int], now: float, cause: str = "") -> None:
        """Note that this cause is gone; a host is healthy again when all its causes are."""
        for number in numbers:
            causes = self._impaired.get(number, {})
            if cause in causes:
                causes[cause] = now

    def is_impaired(self, number: int, now: float) -> bool:
        """Whether a host is impaired, or was until a little ago."""
        return self.was_impaired(number, now - self.GRACE_S)

    def was_impaired(self, number: int, since: float) -> bool:
        """Whether a host was impaired at any time from ``since`` on."""
        causes = self._impaired.get(number, {})
        return any(until is None or until > since for until in causes.values())

    def impaired_since(self, number: int) -> float | None:
        """Return since when a host is or last was impaired, None if it never was."""
        return self._impaired_since.get(number)

    def separate(self, groups: tuple[frozenset[int], ...], now: float) -> None:
        """Note a partition; it ends the one before."""
        self.join(now)
        self._separations.append(Separation(groups, now))

    def join(self, now: float) -> None:
        """Note that the partition ended."""
        if self._separations and self._separations[-1].ended_at is None:
            self._separations[-1].ended_at = now

    def were_separated(self, first: int, second: int, since: float) -> bool:
        """Whether these two were cut off from each other at any time from ``since`` on."""
        return any(
            (separation.ended_at is None or separation.ended_at > since) and separation.parts(first, second)
            for separation in self._separations
        )

    def was_partitioned(self, since: float) -> bool:
        """Whether anybody was cut off at any time from ``since`` on."""
        return any(
            separation.ended_at is None or separation.ended_at > since for separation in self._separations
        )
