"""Records of hosts that membership does not list: kept for a while, since gossip may run ahead of it."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

PATIENCE_S: Final = 120.0
"""How long a record may wait for its host to become a member."""


class Strangers:
    """Since when each record has been without a member."""

    def __init__(self) -> None:
        self._since_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._since_at)

    def overdue(self, holders: Iterable[str], members: AbstractSet[str], now: float) -> list[str]:
        """Return the hosts whose records waited too long; they are no longer waited for."""
        strangers = [host_id for host_id in holders if host_id not in members]
        self._since_at = {host_id: self._since_at.get(host_id, now) for host_id in strangers}
        overdue = [host_id for host_id, since_at in self._since_at.items() if now - since_at > PATIENCE_S]
        for host_id in overdue:
            del self._since_at[host_id]
        return overdue
