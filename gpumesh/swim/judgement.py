"""Accusing and judging: what a failed probe of this host's own means, and when a suspicion becomes a verdict.

- **Who accuses shows that it hears.** A probe that failed while not one relay's nack came back in time
  says more of this host than of the member: it is kept here and told to nobody.
- **The first accuser calls witnesses** that look for themselves at once, by all ways. Enough independent
  accusers make a suspicion short; without them the long wait stays, and the lone accuser looks once more
  at its end.
- **A refusal is an answer.** Where the member's kernel refuses datagram and stream, its daemon died and its
  host lives: nobody is there who could refute, so confirmed suspicions wait less, and people are told so.
- **The deaf do not judge** (consul#5928), see :mod:`gpumesh.swim.belief`.
"""

from __future__ import annotations

from typing import Final

from gpumesh.model import Reachability
from gpumesh.swim.belief import DAEMON_DIED, Belief
from gpumesh.swim.context import Context
from gpumesh.swim.member import Member
from gpumesh.swim.notices import Notices
from gpumesh.swim.statement import Statement
from gpumesh.swim.suspicion import Suspicion

MAX_PATIENCE: Final = 3
"""Probe intervals by which a doubtful host puts a verdict off at most: mass deaths cost nacks, too."""


class Judging:
    """Turns failed probes into accusations, and suspicions that ran out into verdicts."""

    def __init__(self, context: Context, notices: Notices, belief: Belief) -> None:
        self._context = context
        self._notices = notices
        self._belief = belief

    def accuse(self, member: Member, now: float, *, is_sound: bool, is_refused: bool = False) -> None:
        """Suspect the member, after this host's own probe failed.

        ``is_sound``: the probe showed that this host can ask and hear in time; else it tells nobody, since
        the fault may be here. ``is_refused``: the member's kernel refused datagram and stream.
        """
        context = self._context
        is_trusted = is_sound or not context.parameters.weighs_evidence
        doubt = member.doubt
        if member.reachability is Reachability.ALIVE:
            statement = self._suspect(member, is_refused=is_refused)
            self._belief.take(member, statement, now, is_quiet=True)
            if context.parameters.tells_suspects:
                self._notices.tell(member, now)
        suspicion = member.suspicion
        if suspicion is None:
            return
        suspicion.is_own = True
        if is_refused:
            suspicion.refuse(context.parameters.refusal_s)
        if is_trusted:
            self._tell_accusation(member, suspicion, now)
        elif suspicion.last_look_at > now:
            suspicion.restart(now)  # a look by one who cannot see decides nothing
        if doubt is not None and doubt.incarnation == member.incarnation:
            suspicion.confirm(doubt.accuser)
            if is_trusted and doubt.kind is Reachability.FAILED:
                self._belief.take(member, doubt, now)
        self._belief.set_timer(member)

    def _tell_accusation(self, member: Member, suspicion: Suspicion, now: float) -> None:
        context = self._context
        counts = context.host_id in suspicion.accusers or suspicion.confirm(context.host_id)
        if not counts or suspicion.is_told:
            return
        suspicion.is_told = True
        statement = self._suspect(member, is_refused=suspicion.is_refused)
        is_first = len(suspicion.accusers) == 1
        context.spread(statement, now, keeps_others=not is_first)
        if is_first:
            self._notices.call_witnesses(member, statement)

    def _suspect(self, member: Member, *, is_refused: bool) -> Statement:
        accuser = self._context.host_id
        return Statement(
            Reachability.SUSPECT, member.host_id, member.epoch, member.incarnation, None, accuser, is_refused
        )

    def handle_suspicion_due(self, host_id: str, now: float) -> None:
        """Judge a suspicion that has run out."""
        member = self._context.table.get(host_id)
        if member is None or member.suspicion is None:
            return
        suspicion = member.suspicion
        if suspicion.deadline_at > now:
            self._belief.set_timer(member)
            return
        heard_at = self._context.last_heard_at
        is_isolated = heard_at is None or heard_at <= suspicion.started_at
        if not is_isolated or not self._context.parameters.weighs_evidence:
            if self._may_judge(member, suspicion, now):
                accusers = tuple(sorted(suspicion.accusers))
                words = DAEMON_DIED if member.is_refused else "no answer and no refutation"
                reason = f"{words}; accused by {', '.join(accusers)}"
                self._belief.take(member, self._belief.verdict(member), now, reason=reason, accusers=accusers)
        elif self._is_sole_witness(suspicion, now):
            words = DAEMON_DIED if suspicion.is_refused else "no answer"
            reason = f"{words}, and there is nobody else to ask"
            self._belief.take(member, self._belief.verdict(member), now, reason=reason, is_quiet=True)
        else:
            self._context.counters["suspicions/postponed_isolated"] += 1
            suspicion.restart(now)
            self._belief.set_timer(member)

    def _may_judge(self, member: Member, suspicion: Suspicion, now: float) -> bool:
        """Whether the verdict may fall now.

        An accuser whom nobody confirmed looks once more before. A host that has reason to doubt itself waits
        a little longer even where others confirmed: it may read their word before the refutation.
        """
        context = self._context
        is_last = suspicion.last_look_at > float("-inf")
        if is_last or not context.parameters.weighs_evidence:
            return True
        if suspicion.is_confirmed:
            wait_s = min(context.awareness.score, MAX_PATIENCE) * context.parameters.probe_interval_s
            if wait_s == 0 or member.is_refused:
                return True
        else:
            context.counters["suspicions/looked_again"] += 1
            wait_s = 2 * context.awareness.scale(context.parameters.probe_interval_s)
            context.doubt(member.host_id, now, is_wide=True)
        suspicion.last_look_at = now + wait_s
        self._belief.set_timer(member)
        return False

    def _is_sole_witness(self, suspicion: Suspicion, now: float) -> bool:
        if self._context.table.num_live != 1:
            return False
        wait_s = suspicion.shortest_s if suspicion.is_refused else suspicion.longest_s
        return now >= suspicion.first_at + wait_s

    def postpone(self, gap_s: float) -> None:
        """Put all suspicions off by the time this process stood still."""
        for member in self._context.table:
            if member.suspicion is not None:
                member.suspicion.postpone(gap_s)
