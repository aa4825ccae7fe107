"""Everything in the records engine that can grow: how much it holds now, and what it may hold at most."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass

from gpumesh.records import bounds, clocks
from gpumesh.records.differences import Differences
from gpumesh.records.store import Store


@dataclass(frozen=True, slots=True)
class Stores:
    """The parts of one engine in which something is kept."""

    store: Store
    differences: Differences
    queues: Mapping[str, Sized]
    """The others, by name."""

    def sizes(self) -> Mapping[str, int]:
        """Return how much each store holds now."""
        return {
            "hosts": len(self.store),
            "entries": self.store.num_entries,
            "tombstones": self.store.num_tombstones,
            "differences": len(self.differences),
            "asks": self.differences.num_asked,
            **{name: len(queue) for name, queue in self.queues.items()},
        }

    def limits(self) -> Mapping[str, int]:
        """Return how much each store may hold."""
        entries = bounds.MAX_HOSTS * bounds.MAX_ENTRIES
        return {
            "hosts": bounds.MAX_HOSTS,
            "entries": entries,
            "tombstones": entries,
            "differences": bounds.MAX_DIFFERENCES,
            "asks": bounds.MAX_DIFFERENCES,
            "gossip": bounds.MAX_QUEUED,
            "forgotten": bounds.MAX_FORGOTTEN,
            "seen": bounds.MAX_SEEN,
            "contacts": bounds.MAX_HOSTS,
            "changes": entries,
            "clocks": clocks.MAX_PEERS,
        }
