"""The member table: who is known, who is live, who is at which address; bounded, and gone members reaped.

Live members also stand in an array, so that drawing a few at random costs the same in a fleet of ten as of
ten thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from gpumesh.model import Address, Reachability
from gpumesh.swim.member import Member


class _Pool:
    """Host ids in no order, with constant-time add, drop and draw."""

    __slots__ = ("_index", "ids")

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._index: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, host_id: str) -> None:
        if host_id not in self._index:
            self._index[host_id] = len(self.ids)
            self.ids.append(host_id)

    def drop(self, host_id: str) -> None:
        place = self._index.pop(host_id, None)
        if place is None:
            return
        last = self.ids.pop()
        if last != host_id:
            self.ids[place] = last
            self._index[last] = place


class MemberTable:
    """All other hosts known here, at most ``limit`` of them. This host itself does not stand in it."""

    __slots__ = ("_by_address", "_failed", "_limit", "_live", "_rows")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows: dict[str, Member] = {}
        self._by_address: dict[Address, str] = {}
        self._live = _Pool()
        self._failed = _Pool()

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._rows.values())

    def get(self, host_id: str) -> Member | None:
        """Return the member, None if it is not known."""
        return self._rows.get(host_id)

    def at(self, address: Address) -> Member | None:
        """Return the member that holds this address, live before gone."""
        host_id = self._by_address.get(address)
        return None if host_id is None else self._rows.get(host_id)

    def __contains__(self, host_id: str) -> bool:
        return host_id in self._rows

    @property
    def num_live(self) -> int:
        """Alive and suspect members, this host left out."""
        return len(self._live)

    @property
    def num_failed(self) -> int:
        """Members held failed."""
        return len(self._failed)

    @property
    def num_left(self) -> int:
        """Members that said goodbye."""
        return len(self._rows) - len(self._live) - len(self._failed)

    @property
    def live_ids(self) -> list[str]:
        """Ids of the alive and suspect, in no order; not to be changed."""
        return self._live.ids

    def add(self, member: Member) -> Member | None:
        """Put a new member in; return the gone one that gave way, if the table was full.

        Raises :class:`OverflowError` when it is full of live members.
        """
        evicted = None
        if len(self._rows) >= self._limit:
            evicted = min(
                (row for row in self if not row.is_live),
                key=lambda row: (row.reachability is not Reachability.LEFT, row.since_at),
                default=None,
            )
            if evicted is None:
                raise OverflowError(f"member table is full: {self._limit} live members")
            self.drop(evicted)
        self._rows[member.host_id] = member
        self.settle(member)
        return evicted

    def drop(self, member: Member) -> None:
        """Forget the member."""
        del self._rows[member.host_id]
        self._live.drop(member.host_id)
        self._failed.drop(member.host_id)
        if self._by_address.get(member.address) == member.host_id:
            del self._by_address[member.address]

    def settle(self, member: Member) -> None:
        """Bring the indexes in line after the member's reachability changed."""
        if member.is_live:
            self._live.add(member.host_id)
            self._failed.drop(member.host_id)
            self._by_address[member.address] = member.host_id
            return
        self._live.drop(member.host_id)
        if member.reachability is Reachability.FAILED:
            self._failed.add(member.host_id)
        else:
            self._failed.drop(member.host_id)
        self._by_address.setdefault(member.address, member.host_id)

    def move(self, member: Member, address: Address) -> None:
        """Give the member another address."""
        if self._by_address.get(member.address) == member.host_id:
            del self._by_address[member.address]
        member.address = address
        self.settle(member)

    def draw(self, random: Random, num: int, but: str = "") -> list[Member]:
        """Return up to ``num`` different live members at random, without ``but``."""
        return self._draw(self._live.ids, random, num, but)

    def draw_failed(self, random: Random) -> Member | None:
        """Return a failed member at random."""
        drawn = self._draw(self._failed.ids, random, 1, "")
        return drawn[0] if drawn else None

    def _draw(self, ids: list[str], random: Random, num: int, but: str) -> list[Member]:
        wanted = min(len(ids), num + 1)
        drawn = random.sample(ids, wanted) if wanted else []
        return [self._rows[host_id] for host_id in drawn if host_id != but][:num]

    def expired(self, now: float, failed_s: float, left_s: float) -> list[Member]:
        """Return the gone members whose time of remembrance is over."""
        due = []
        for row in self:
            if row.is_live:
                continue
            kept_s = left_s if row.reachability is Reachability.LEFT else failed_s
            if now - row.since_at >= kept_s:
                due.append(row)
        return due
