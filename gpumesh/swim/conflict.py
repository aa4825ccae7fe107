"""Two daemons under one identity, or two hosts at one address: how it is noticed in what is said."""

from __future__ import annotations

from typing import Final

from gpumesh.model import Address, Reachability
from gpumesh.swim.context import Context
from gpumesh.swim.member import Member
from gpumesh.swim.notices import Notices
from gpumesh.swim.statement import Statement

ADVICE: Final = "one of the two must stop; if its state directory is a copy, delete identity.json there"


class Conflicts:
    """Notices conflicts between other hosts."""

    def __init__(self, context: Context, notices: Notices) -> None:
        self._context = context
        self._notices = notices

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
            self._notices.report_conflict(member, statement, statement.address, reason, now)

    def handle_shared_address(self, member: Member, address: Address, now: float) -> None:
        """Notice that ``address``, now the member's, is another's already: this host's own or a living one's.

        That other one is looked after: whoever answers there has it.
        """
        if not member.is_live:
            return
        if address == self._context.address:
            self._notices.report_claim(member, f"{member.host_id} claims {address}, as does this host", now)
            return
        other = self._context.table.at(address)
        if other is None or other is member or not other.is_live:
            return
        reason = f"{other.host_id} and {member.host_id} both claim {address}"
        claim = Statement(Reachability.ALIVE, member.host_id, member.epoch, member.incarnation, address)
        self._notices.report_conflict(other, claim, address, reason, now)
        self._context.doubt(other.host_id, now)
