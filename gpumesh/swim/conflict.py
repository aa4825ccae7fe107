"""Two daemons under one identity, or two hosts at one address: said seldom, and to those concerned."""

from __future__ import annotations

from typing import Final

from gpumesh.model import Address, Reachability
from gpumesh.swim.context import Context
from gpumesh.swim.member import Member
from gpumesh.swim.ports import IdentityConflict
from gpumesh.swim.post import Post
from gpumesh.swim.statement import Statement
from gpumesh.swim.wire import Gossip

CONFLICT_SILENCE_S: Final = 60.0
"""A conflict about one member is told at most this often."""
ADVICE: Final = "one of the two must stop; if its state directory is a copy, delete identity.json there"


class Conflicts:
    """Reports conflicts between other hosts."""

    def __init__(self, context: Context, post: Post) -> None:
        self._context = context
        self._post = post

    def report(self, member: Member, claim: Statement, address: Address, reason: str, now: float) -> None:
        """Say that two daemons claim one identity or one address, to the shell and to the member itself.

        ``claim`` is the other's statement. At most once a minute for each member.
        """
        if now - member.conflict_told_at < CONFLICT_SILENCE_S:
            return
        member.conflict_told_at = now
        self._context.counters["conflicts/members"] += 1
        self._context.emit(IdentityConflict(member.host_id, address, reason))
        self._post.send(Gossip(), member.address, member, has_news=False, extra=claim)

    def handle_same_run(self, member: Member, statement: Statement, now: float) -> None:
        """Compare a statement of the member's present run with what is held: another address is a double."""
        if (
            statement.kind is Reachability.ALIVE
            and statement.incarnation == member.incarnation
            and member.is_live
            and statement.address is not None
            and statement.address != member.address
        ):
            reason = f"two daemons claim {member.host_id}: {member.address} and {statement.address}; {ADVICE}"
            self.report(member, statement, statement.address, reason, now)

    def handle_shared_address(self, member: Member, address: Address, now: float) -> None:
        """Notice that ``address``, now the member's, was a living one's already: look after that one."""
        other = self._context.table.at(address)
        if other is None or other is member or not other.is_live:
            return
        reason = f"{other.host_id} and {member.host_id} both claim {address}"
        claim = Statement(Reachability.ALIVE, member.host_id, member.epoch, member.incarnation, address)
        self.report(other, claim, address, reason, now)
        self._context.doubt(other.host_id, now)
