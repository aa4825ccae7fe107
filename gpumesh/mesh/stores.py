"""Everything in one host's brain that can grow: how much it holds now, and what it may hold at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpumesh.mesh.arrivals import MAX_WAITING
from gpumesh.mesh.events import MAX_EVENTS, EventQueue
from gpumesh.mesh.news import MemberNews
from gpumesh.mesh.roster import Roster
from gpumesh.mesh.strangers import Strangers
from gpumesh.records.engine import Records
from gpumesh.swim.engine import Swim


@dataclass(frozen=True, slots=True)
class Stores:
    """The parts in which something is kept; membership's and the records' own under their names."""

    swim: Swim
    records: Records
    roster: Roster
    events: EventQueue
    strangers: Strangers
    news: MemberNews

    def sizes(self) -> Mapping[str, int]:
        """Return how much each store holds now."""
        return {
            **_under("swim", self.swim.queue_sizes),
            **_under("records", self.records.sizes),
            **self.roster.sizes,
            "events": len(self.events),
            "strangers": len(self.strangers),
            "arrivals": len(self.news),
        }

    def limits(self) -> Mapping[str, int]:
        """Return how much each store may hold."""
        swim, records = self.swim.queue_limits, self.records.limits
        return {
            **_under("swim", swim),
            **_under("records", records),
            **self.roster.limits(swim["members"]),
            "events": MAX_EVENTS,
            "strangers": records["hosts"],
            "arrivals": MAX_WAITING,
        }


def _under(name: str, numbers: Mapping[str, int]) -> dict[str, int]:
    return {f"{name}/{store}": number for store, number in numbers.items()}


class Measured:
    """Who keeps something, and says how much."""

    _stores: Stores

    @property
    def queue_sizes(self) -> Mapping[str, int]:
        """How much each table and queue holds now."""
        return self._stores.sizes()

    @property
    def queue_limits(self) -> Mapping[str, int]:
        """How much each of them may hold."""
        return self._stores.limits()
