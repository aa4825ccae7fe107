"""Spreading news between probes, and the goodbye."""

from __future__ import annotations

from typing import Final

from gpumesh.swim.context import GOSSIP, Context
from gpumesh.swim.post import Post
from gpumesh.swim.probe import ROUND
from gpumesh.swim.wire import Gossip

FAREWELL: Final = ("farewell", None)
FAREWELL_ROUNDS: Final = 3


class Spreading:
    """Gossip rounds to a few random members, less often while there is nothing to tell."""

    def __init__(self, context: Context, post: Post) -> None:
        self._context = context
        self._post = post
        self._num_farewells = 0
        context.agenda.set(
            GOSSIP, context.now + context.parameters.gossip_interval_s * context.random.random()
        )

    def handle_round(self, now: float) -> None:
        """Tell a few members what is new; the first that there is nothing to tell ends the round."""
        context = self._context
        parameters = context.parameters
        had_news = False
        for member in context.table.draw(context.random, parameters.gossip_fanout):
            is_told = now - member.notice_at < parameters.probe_interval_s
            if not is_told and member.accusation() is not None:
                member.notice_at = now
            if self._post.send(Gossip(), member.way, None if is_told else member):
                had_news = True
            elif member.accusation() is None:
                break
        context.agenda.set(GOSSIP, now + parameters.gossip_interval_s if had_news else self._idle_until(now))

    def _idle_until(self, now: float) -> float:
        """Return when to look for news again: along with a probe round, since each wake of a host costs."""
        wait_s = self._context.parameters.idle_gossip_interval_s
        round_at = self._context.agenda.at(ROUND)
        is_near = round_at is not None and now < round_at <= now + wait_s * 2
        return round_at if round_at is not None and is_near else now + wait_s

    def handle_farewell(self, now: float) -> None:
        """Tell random members directly that this host leaves; three rounds, should datagrams be lost."""
        context = self._context
        for member in context.table.draw(context.random, context.parameters.leave_peers):
            self._post.send(Gossip(), member.way, member, has_news=False)
        self._num_farewells += 1
        if self._num_farewells < FAREWELL_ROUNDS:
            context.agenda.set(FAREWELL, now + context.parameters.gossip_interval_s)
