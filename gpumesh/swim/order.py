"""The order of probing: every live member once in a shuffled pass, then anew (SWIM, section 4.3).

A pass bounds the time until a dead member is asked by n rounds, which random choice alone does not.
"""

from __future__ import annotations

from collections.abc import Container
from random import Random

from gpumesh.swim.member import Member
from gpumesh.swim.table import MemberTable


class ProbeOrder:
    """Ids still to be asked in this pass, the next one last."""

    def __init__(self, table: MemberTable, random: Random) -> None:
        self._table = table
        self._random = random
        self._waiting: list[str] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def insert(self, host_id: str) -> None:
        """Put a newcomer at a random place in what remains of the pass.

        Members that come and go without end would make a pass longer than the fleet: the next one has them.
        """
        if len(self._waiting) >= 2 * self._table.num_live:
            return
        self._waiting.append(host_id)
        place = self._random.randrange(len(self._waiting))
        self._waiting[place], self._waiting[-1] = self._waiting[-1], self._waiting[place]

    def next(self, busy: Container[str]) -> Member | None:
        """Return the next live member that is not ``busy``, beginning a new pass if this one is over."""
        for _ in range(2):
            while self._waiting:
                member = self._table.get(self._waiting.pop())
                if member is not None and member.is_live and member.host_id not in busy:
                    return member
            self._waiting = list(self._table.live_ids)
            self._random.shuffle(self._waiting)
        return None
