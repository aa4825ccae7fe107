"""Two daemons under one identity, or two hosts at one address: how it is noticed, settled and told.

Whoever answers at an address has it. A member in whose place another answers is failed (foca#31); from then
on it is not taken back at that address, whatever it says of itself, for as long as the other lives there: it
is welcome at another one, or once the other is gone. Observers need no vote, since they ask the same address.

That both live is told on proof alone, for a host that is given the address of one just gone is no conflict:
the one that was refused has spoken since, and the other answers once more. Nor are two hosts whose addresses
change hands, of which one notices before the other: what is told has lasted. The observer passes on to both
what the other claims, to the refused where it speaks from.
"""

from __future__ import annotations

from typing import Final

from gpumesh.model import LIVE, Address, Reachability
from gpumesh.swim.context import Context
from gpumesh.swim.member import Member
from gpumesh.swim.notices import Notices
from gpumesh.swim.statement import Statement

ADVICE: Final = "one of the two must stop; if its state directory is a copy, delete identity.json there"
CLAIM_EVERY_S: Final = 5.0
"""A claim to another's address is looked into at most this often, by each observer."""
ELSEWHERE_S: Final = 120.0
"""Who has not answered at its address for so long, only where it calls from, does not have it."""
OVERLAP_S: Final = 3.0
"""Word of a host that is gone may be this late: it need not mean that the host still lives."""


class Conflicts:
    """Notices conflicts. What it knows stands in the members' rows, so that each part may have its own."""

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
        """Have all asked that live at ``address``, which is the member's now: whoever answers has it."""
        if not member.is_live:
            return
        other = self._context.table.at(address)
        if other is not None and other is not member and other.is_live:
            self._context.doubt(other.host_id, now)
        elif address != self._context.address:
            return
        self._context.doubt(member.host_id, now)

    def holder(self, member: Member) -> str | None:
        """Return who has the address of a failed member now: a living one, or this host; None for nobody.

        Not one who is reached only where it calls from: the address may be its own behind its router alone.
        """
        if member.reachability is not Reachability.FAILED:
            return None
        if member.address == self._context.address:
            return self._context.host_id
        other = self._context.table.at(member.address)
        if other is None or other is member or not other.is_live:
            return None
        is_elsewhere = (
            other.transport == "return" and self._context.now - other.answered_there_at > ELSEWHERE_S
        )
        return None if is_elsewhere else other.host_id

    def refuses(self, member: Member, statement: Statement, now: float, *, is_first_hand: bool) -> bool:
        """Return whether a failed member stays failed although it says that it lives: its address is taken.

        ``is_first_hand``: the member itself says so.
        """
        is_elsewhere = statement.address not in (None, member.address)
        if statement.kind not in LIVE or statement.epoch != member.epoch or is_elsewhere:
            return False
        if self.holder(member) is None:
            return False
        self._context.counters["claims/refused"] += 1
        if is_first_hand and statement.address is not None:
            member.refused_incarnation = max(member.refused_incarnation, statement.incarnation)
        if statement.kind is Reachability.ALIVE and (is_first_hand or now - member.since_at > OVERLAP_S):
            self._look_into(member, statement, now)
        return True

    def handle_echo(self, member: Member, statement: Statement, now: float) -> bool:
        """Take word that a failed member was alive; return whether its address is another's by now."""
        if self.holder(member) is None or statement.address != member.address:
            return False
        if statement.incarnation == member.incarnation and now - member.since_at > OVERLAP_S:
            self._look_into(member, statement, now)
        return True

    def handle_word(
        self, member: Member, incarnation: int, source: Address, now: float, *, is_proven: bool
    ) -> bool:
        """Take a datagram of the member itself; return whether it is one whose address is another's.

        It is told so where it speaks from. ``is_proven``: it comes in a session that has answered here. Its
        incarnation alone does not say where it is: it may have moved, and is asked to introduce itself.
        """
        holder = self.holder(member)
        if holder is None:
            return False
        is_here = incarnation in (member.incarnation, member.refused_incarnation)
        if is_here and is_proven and now - member.since_at > OVERLAP_S:
            self._look_into(member, _claim(member, incarnation), now)
        if now - member.notice_at >= CLAIM_EVERY_S:
            member.notice_at = now
            other = self._context.table.get(holder)
            claim = _claim(other, other.incarnation) if other is not None else None
            self._notices.pass_on(member, claim, source)
        return True

    def handle_claim(self, member: Member, now: float) -> None:
        """Look whether a living member, said to be at this host's own address, answers there."""
        if member.is_live and now - member.notice_at >= CLAIM_EVERY_S:
            member.notice_at = now
            self._context.doubt(member.host_id, now)

    def handle_proof(self, member: Member, now: float) -> None:
        """Take it that a living member has answered: what is claimed of its address is a conflict."""
        if member.address == self._context.address:
            self._report_own(member, now)
        claim, member.claim = member.claim, None
        other = self._context.table.get(claim.host_id) if claim is not None else None
        if claim is None or other is None or self.holder(other) != member.host_id:
            return
        reason = f"{other.host_id} and {member.host_id} both claim {member.address}; "
        reason += f"{member.host_id} answers there"
        self._notices.report_claim(other, reason, now)
        self._notices.pass_on(member, claim)

    def _look_into(self, member: Member, claim: Statement, now: float) -> None:
        """Ask the holder of the address once more: if it answers, there are two."""
        holder = self._context.table.get(self.holder(member) or "")
        if holder is None:
            self._report_own(member, now)
        elif now - holder.claimed_at >= CLAIM_EVERY_S:
            holder.claimed_at = now
            holder.claim = claim
            self._context.doubt(holder.host_id, now)

    def _report_own(self, member: Member, now: float) -> None:
        reason = f"{member.host_id} claims {member.address}, as does this host"
        self._notices.report_claim(member, reason, now, is_here=True)


def _claim(member: Member, incarnation: int) -> Statement:
    return Statement(Reachability.ALIVE, member.host_id, member.epoch, incarnation, member.address)
