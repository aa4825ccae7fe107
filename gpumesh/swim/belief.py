"""What this host believes of the others, and how a statement changes it.

Statements are ordered by :func:`gpumesh.swim.statement.precedence`; a greater one is taken. On top of SWIM
and Lifeguard stand three rules of evidence:

- **Hearsay is examined.** An accusation is believed at once only if an alive member makes it while this host
  has no fresh answer of its own. Otherwise the accused is probed first, with the accusation in the ping,
  and a failed probe makes it this host's own accusation (Rapid's corroboration: ATC'18, section 4).
- **Evidence vouches.** A direct answer later than a suspicion ends it here, and peers are told; the member,
  told too, refutes by raising its incarnation, which ends it everywhere.
- **The deaf do not judge.** Who has heard nobody since a suspicion began cannot tell a dead fleet from a
  pulled cable (consul#5928), and declares nobody failed. Of two hosts alone the survivor decides after the
  longest wait.
"""

from __future__ import annotations

from typing import Final

from gpumesh.model import LIVE, Address, Reachability
from gpumesh.swim.conflict import Conflicts
from gpumesh.swim.context import RECLAIM, Context
from gpumesh.swim.member import Member
from gpumesh.swim.notices import Notices
from gpumesh.swim.parameters import reclaim_interval, suspicion_bounds
from gpumesh.swim.ports import MemberChanged, MemberForgotten
from gpumesh.swim.statement import Statement, Vouch, precedence
from gpumesh.swim.suspicion import Suspicion

DAEMON_DIED: Final = "its daemon died, the host answers"
ACCUSATIONS: Final = (Reachability.SUSPECT, Reachability.FAILED)
RETURN_SYNCS: Final = 4
"""So many hosts of the fleet, on average, run a push/pull with a member that returns from failed."""


class Belief:
    """Takes statements and evidence about other members, and judges suspicions that have run out."""

    def __init__(self, context: Context, notices: Notices) -> None:
        self._context = context
        self._notices = notices
        self._conflicts = Conflicts(context, notices)

    def handle_statement(
        self,
        statement: Statement,
        now: float,
        *,
        is_sync: bool = False,
        is_joining: bool = False,
        is_first_hand: bool = False,
        age_s: float = 0.0,
    ) -> None:
        """Take what a peer says of another member.

        ``is_first_hand``: the accuser itself says so, or the member of itself. ``is_sync``: it came in a
        push/pull and may be old. ``is_joining``: this host has just been told of the whole fleet, and need
        not tell the fleet of itself. ``age_s``: how long a member unknown here has been gone.
        """
        context = self._context
        member = context.table.get(statement.host_id)
        if member is not None and statement.address == context.address:
            self._conflicts.handle_claim(member, now)
        if member is not None and member.holds(statement):
            return
        if statement.kind in ACCUSATIONS and not self._is_valid(statement, is_sync=is_sync):
            context.counters["drops/invalid_accuser"] += 1
            return
        if member is None:
            self._meet(statement, now, is_sync=is_sync, is_joining=is_joining, age_s=age_s)
        elif precedence(statement.kind, statement.epoch, statement.incarnation) <= member.precedence:
            self._handle_older(member, statement, now)
        elif self._conflicts.refuses(member, statement, now, is_first_hand=is_first_hand):
            return
        elif self._needs_examination(member, statement, now, is_sync=is_sync):
            self._examine(member, statement, now)
        else:
            is_new = member.suspicion is None
            self.take(member, statement, now)
            if is_first_hand and is_new and member.suspicion is not None:
                self._corroborate(member, now)

    def handle_vouch(self, vouch: Vouch, now: float) -> None:
        """Take a peer's word that it had an answer from the member itself."""
        member = self._context.table.get(vouch.host_id)
        voucher = self._context.table.get(vouch.voucher)
        if member is None or voucher is None or voucher is member:
            return
        if voucher.reachability is not Reachability.ALIVE or vouch.epoch != member.epoch:
            return
        if member.reachability is Reachability.LEFT or self._conflicts.holder(member) is not None:
            return
        if vouch.incarnation > member.incarnation:
            self.take(member, self._alive(member, vouch.incarnation), now)
        elif vouch.incarnation < member.incarnation:
            return
        member.vouched_at = now
        member.evidence_at = max(member.evidence_at, now)
        if member.suspicion is None:
            return
        if member.suspicion.is_own:
            member.suspicion.restart(now)
            self.set_timer(member)
        else:
            self._acquit(member, f"{vouch.voucher} vouched for it", now)
            self._context.spread(vouch, now)

    def handle_evidence(
        self, member: Member, incarnation: int, now: float, *, is_proven: bool, is_answer: bool = False
    ) -> None:
        """Take word from the member itself at its current epoch.

        ``is_proven``: it answers a question of this host, or comes in a session that did, so it is no
        recording. ``is_answer``: it answered where it was asked.
        """
        context = self._context
        if member.reachability is Reachability.LEFT or incarnation < member.incarnation:
            return
        holder = self._conflicts.holder(member)
        if holder is not None and not (is_answer and holder == context.host_id):
            return
        if incarnation > member.incarnation:
            held = member.statement()
            self.take(member, self._alive(member, incarnation), now)
            if held.kind is Reachability.FAILED:  # whoever comes back is told that it was gone for others
                self._notices.pass_on(member, held)
        if not is_proven or not member.is_live:
            return
        if not context.parameters.weighs_evidence:
            member.evidence_at = now
            return
        member.evidence_at = member.answered_at = now
        self._conflicts.handle_proof(member, now)
        was_doubted, member.doubt = member.doubt is not None, None
        if member.suspicion is not None:
            self._acquit(member, "it answered this host", now)
        elif not was_doubted:
            return
        context.spread(Vouch(member.host_id, member.epoch, member.incarnation, context.host_id), now)

    def displace(self, member: Member, usurper: str, now: float) -> None:
        """Fail a member whose address answers as somebody else (foca#31: one identity per address).

        Where it is this host that answers there, that is told to nobody: others ask themselves.
        """
        reason = f"its address {member.address} now answers as {usurper}"
        is_quiet = usurper == self._context.host_id
        self.take(member, self.verdict(member), now, reason=reason, is_quiet=is_quiet)
        holder = self._context.table.get(usurper)
        if holder is not None and holder.is_live and holder.address == member.address:
            self._context.table.settle(holder)

    def take(
        self,
        member: Member,
        statement: Statement,
        now: float,
        *,
        reason: str = "",
        accusers: tuple[str, ...] = (),
        is_quiet: bool = False,
    ) -> None:
        """Make a greater statement this host's belief, tell the shell, and pass it on unless ``is_quiet``."""
        context = self._context
        before = member.reachability
        is_new_epoch = statement.epoch != member.epoch
        name = member.turn(statement.kind, statement.epoch, statement.incarnation, now)
        moved_from = self._move(member, statement.address, now)
        if statement.kind in ACCUSATIONS:
            member.accuser = statement.accuser
            member.is_refused = statement.is_refused
        if statement.kind is Reachability.SUSPECT:
            self._start_suspicion(member, statement.accuser, now)
        else:
            context.agenda.cancel(("suspicion", member.host_id))
        if before not in LIVE:
            self._conflicts.handle_shared_address(member, member.address, now)
        context.table.settle(member)
        self._follow_up(member, before, now, is_new_epoch=is_new_epoch)
        if not is_quiet:
            context.spread(member.statement(), now)
        if is_new_epoch or moved_from is not None or before is not member.reachability:
            words = reason or _reason(name, statement, moved_from, is_new_epoch=is_new_epoch)
            if not accusers and statement.kind in ACCUSATIONS:
                accusers = (statement.accuser,)
            self._emit(member, before, words, is_new_epoch=is_new_epoch, accusers=accusers)

    def forget(self, member: Member) -> None:
        """Drop the member from the table and from all queues."""
        context = self._context
        context.table.drop(member)
        self._tidy(member)

    def _is_valid(self, statement: Statement, *, is_sync: bool) -> bool:
        if not statement.accuser or statement.accuser == statement.host_id:
            return False
        is_known = (
            statement.accuser == self._context.host_id
            or self._context.table.get(statement.accuser) is not None
        )
        return is_known or is_sync

    def _needs_examination(self, member: Member, statement: Statement, now: float, *, is_sync: bool) -> bool:
        if statement.kind not in ACCUSATIONS or statement.epoch != member.epoch or not member.is_live:
            return False
        if not self._context.parameters.weighs_evidence:
            return False
        if member.suspicion is not None:
            is_same = statement.incarnation == member.incarnation
            return statement.kind is Reachability.FAILED and not (is_same and member.suspicion.is_confirmed)
        if statement.kind is Reachability.FAILED:
            return True
        accuser = self._context.table.get(statement.accuser)
        if is_sync or accuser is None or accuser.reachability is not Reachability.ALIVE:
            return True
        return now - max(member.answered_at, member.vouched_at) < self._context.parameters.fresh_evidence_s

    def _examine(self, member: Member, statement: Statement, now: float) -> None:
        if member.suspicion is not None:
            self._confirm(member, statement, now)
        if not self._context.doubt(member.host_id, now, is_wide=not statement.is_refused):
            return
        self._context.counters["accusations/examined"] += 1
        if member.doubt is None or precedence(
            statement.kind, statement.epoch, statement.incarnation
        ) > precedence(member.doubt.kind, member.doubt.epoch, member.doubt.incarnation):
            member.doubt = statement

    def _handle_older(self, member: Member, statement: Statement, now: float) -> None:
        if statement.epoch != member.epoch:
            return
        if statement.kind is Reachability.SUSPECT and statement.incarnation == member.incarnation:
            self._confirm(member, statement, now)
        elif statement.kind is Reachability.ALIVE and member.reachability is Reachability.FAILED:
            if not self._conflicts.handle_echo(member, statement, now):
                self._notices.tell(member, now, statement.address)  # memberlist#311: a live host stayed dead
        else:
            self._conflicts.handle_same_run(member, statement, now)

    def _confirm(self, member: Member, statement: Statement, now: float) -> None:
        if member.suspicion is not None and member.suspicion.confirm(statement.accuser):
            member.is_refused = member.is_refused or statement.is_refused
            self.set_timer(member)
            if statement.kind is Reachability.SUSPECT:
                self._context.spread(statement, now, keeps_others=True)

    def _meet(
        self, statement: Statement, now: float, *, is_sync: bool, is_joining: bool, age_s: float
    ) -> None:
        if statement.address is None or (statement.kind is not Reachability.ALIVE and not is_sync):
            self._context.counters["drops/unknown_member"] += 1
            return
        context = self._context
        member = Member(statement.host_id, statement.address, statement.epoch, statement.incarnation, now)
        member.reachability = statement.kind
        try:
            self._conflicts.handle_shared_address(member, statement.address, now)
            evicted = context.table.add(member)
        except OverflowError:
            context.counters["drops/table_full"] += 1
            return
        if evicted is not None:
            self._tidy(evicted)
        member.accuser = statement.accuser
        if not member.is_live:
            member.since_at = now - age_s
        if statement.kind is Reachability.SUSPECT:
            self._start_suspicion(member, statement.accuser, now)
        context.table.settle(member)
        self._follow_up(member, None, now, is_new_epoch=True)
        if not is_joining and member.is_live:
            context.spread(member.statement(), now)
        reason = f"met at {member.address}" if member.is_live else f"met as {statement.kind}"
        self._emit(member, None, reason, is_new_epoch=False)

    def _start_suspicion(self, member: Member, accuser: str, now: float) -> None:
        context = self._context
        num_members = context.num_members
        wanted = min(context.parameters.num_confirmations, max(0, num_members - 2))
        bounds = suspicion_bounds(context.parameters, num_members)
        member.suspicion = Suspicion(accuser, now, bounds, wanted)
        self.set_timer(member)

    def _corroborate(self, member: Member, now: float) -> None:
        if self._context.parameters.num_corroborators > 0:
            self._context.doubt(member.host_id, now, is_wide=not member.is_refused)

    def _acquit(self, member: Member, reason: str, now: float) -> None:
        context = self._context
        before = member.reachability
        member.turn(Reachability.ALIVE, member.epoch, member.incarnation, now)
        context.agenda.cancel(("suspicion", member.host_id))
        context.broadcasts.drop(member.host_id)
        context.table.settle(member)
        self._emit(member, before, reason, is_new_epoch=False)

    def _follow_up(
        self, member: Member, before: Reachability | None, now: float, *, is_new_epoch: bool
    ) -> None:
        context = self._context
        if member.is_live and before not in LIVE:
            context.newcomers.append(member.host_id)
        if member.reachability is Reachability.FAILED:
            wait_s = reclaim_interval(context.parameters, context.num_members, context.table.num_failed)
            context.agenda.set_earlier(RECLAIM, now + wait_s * context.random.random())
        elif before is Reachability.FAILED and member.is_live and not is_new_epoch:
            self._greet(member)

    def _greet(self, member: Member) -> None:
        """Perhaps exchange all that is known with a member that returned: if all did, it would drown."""
        if self._context.random.random() * self._context.table.num_live < RETURN_SYNCS:
            self._context.want_sync(member.host_id)

    def _move(self, member: Member, address: Address | None, now: float) -> Address | None:
        if address is None or address == member.address:
            return None
        before = member.address
        self._conflicts.handle_shared_address(member, address, now)
        self._context.table.move(member, address)
        return before

    def set_timer(self, member: Member) -> None:
        """Have the member's suspicion, if any, come due at its deadline."""
        if member.suspicion is not None:
            self._context.agenda.set(("suspicion", member.host_id), member.suspicion.deadline_at)

    def _tidy(self, member: Member) -> None:
        context = self._context
        context.agenda.cancel(("suspicion", member.host_id))
        context.broadcasts.drop(member.host_id)
        context.doubts.pop(member.host_id, None)
        context.passenger.forget(member.host_id)
        context.emit(MemberForgotten(member.host_id))

    def _alive(self, member: Member, incarnation: int) -> Statement:
        return Statement(Reachability.ALIVE, member.host_id, member.epoch, incarnation, member.address)

    def verdict(self, member: Member) -> Statement:
        """Return this host's statement that the member has failed."""
        return Statement(
            Reachability.FAILED,
            member.host_id,
            member.epoch,
            member.incarnation,
            None,
            self._context.host_id,
            member.is_refused,
        )

    def _emit(
        self,
        member: Member,
        before: Reachability | None,
        reason: str,
        *,
        is_new_epoch: bool,
        accusers: tuple[str, ...] = (),
    ) -> None:
        self._context.emit(
            MemberChanged(
                member.host_id,
                member.address,
                member.epoch,
                member.incarnation,
                before,
                member.reachability,
                reason,
                is_new_epoch,
                accusers,
            )
        )


def _reason(name: str, statement: Statement, moved_from: Address | None, *, is_new_epoch: bool) -> str:
    words = name
    if statement.kind is Reachability.LEFT:
        words = "it said goodbye"
    elif is_new_epoch and statement.kind is Reachability.ALIVE:
        words = "restarted"
    if statement.kind in ACCUSATIONS:  # the state is named beside the reason
        words = f"{DAEMON_DIED if statement.is_refused else 'no answer'}, says {statement.accuser}"
    if moved_from is not None:
        words += f", moved from {moved_from}"
    return words
