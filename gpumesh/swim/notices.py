"""Telling a member what is held of it, outside the probes; rate-limited, lest they chatter (foca#25)."""

from __future__ import annotations

from typing import Final

from gpumesh.model import Address
from gpumesh.swim.context import Context
from gpumesh.swim.member import Member
from gpumesh.swim.ports import IdentityConflict
from gpumesh.swim.post import Post
from gpumesh.swim.statement import Statement
from gpumesh.swim.wire import Gossip

CONFLICT_SILENCE_S: Final = 60.0
"""A conflict about one member is told at most this often."""
CLAIM_LASTS_S: Final = 6.0
"""A claim to another's address is told once it has lasted so long: daemons look each 5 s where they are."""
CLAIM_GAP_S: Final = 60.0
"""A claim that was not seen for so long begins anew."""


class Notices:
    """Datagrams to one member about itself."""

    def __init__(self, context: Context, post: Post) -> None:
        self._context = context
        self._post = post

    def tell(self, member: Member, now: float, to: Address | None = None) -> None:
        """Tell a member that it stands accused, so that it can refute; at most once in a probe interval."""
        if now - member.notice_at < self._context.parameters.probe_interval_s:
            self._context.counters["notices/withheld"] += 1
            return
        member.notice_at = now
        self._post.send(Gossip(), to or member.way, member, introduces=True, has_news=False)

    def call_witnesses(self, member: Member, accusation: Statement) -> None:
        """Tell a few members at once that one is suspected, so that they look for themselves."""
        context = self._context
        drawn = context.table.draw(context.random, context.parameters.num_corroborators, but=member.host_id)
        for witness in drawn:
            self._post.send(Gossip(), witness.way, witness, has_news=False, extra=accusation)

    def pass_on(self, member: Member, statement: Statement | None, to: Address | None = None) -> None:
        """Send the member a statement that concerns it, and who this host is."""
        self._post.send(
            Gossip(), to or member.way, member, introduces=to is not None, has_news=False, extra=statement
        )

    def report_claim(self, member: Member, reason: str, now: float, *, is_here: bool = False) -> None:
        """Say to the shell that a member claims another's address, if it has done so for a while.

        At most once a minute for each member. ``is_here``: the address is this host's own.
        """
        if now - member.contested_at > CLAIM_GAP_S:
            member.contested_since_at = now
        member.contested_at = now
        if now - member.contested_since_at < CLAIM_LASTS_S:
            return
        if now - member.conflict_told_at < CONFLICT_SILENCE_S:
            return
        member.conflict_told_at = now
        self._context.counters["conflicts/members"] += 1
        self._context.emit(
            IdentityConflict(member.host_id, member.address, reason, is_of_address=True, is_here=is_here)
        )

    def report_conflict(
        self, member: Member, claim: Statement, address: Address, reason: str, now: float
    ) -> None:
        """Say that two daemons claim one identity, to the shell and to the member itself.

        ``claim`` is the other's statement. At most once a minute for each member.
        """
        if now - member.conflict_told_at < CONFLICT_SILENCE_S:
            return
        member.conflict_told_at = now
        self._context.counters["conflicts/members"] += 1
        self._context.emit(IdentityConflict(member.host_id, address, reason))
        self.pass_on(member, claim)
