"""What others say of this host: refuting accusations, and noticing that somebody else uses its name."""

from __future__ import annotations

from typing import Final

from gpumesh.model import Address, Reachability
from gpumesh.swim.conflict import ADVICE
from gpumesh.swim.context import Context
from gpumesh.swim.fields import MAX_EPOCH, MAX_INCARNATION
from gpumesh.swim.member import Member
from gpumesh.swim.ports import EpochOvertaken, IdentityConflict, SelfAccused
from gpumesh.swim.post import Post
from gpumesh.swim.statement import Statement
from gpumesh.swim.wire import Gossip

CONFLICT_SILENCE_S: Final = 60.0
RAISE_SILENCE_S: Final = 10.0
"""Two daemons with one identity and one epoch outbid each other this seldom (foca#25: endless loops)."""
EPOCH_OVERLAP_S: Final = 10.0
"""Word of an older run may be this late; later it means that the older daemon still runs."""

INTRODUCE_S: Final = 60.0
"""How long after a move each datagram says where this host is now: the incarnation alone would not."""


class Defence:
    """Answers statements about this host itself; only a member raises its incarnation (SWIM, section 4.2)."""

    def __init__(self, context: Context, post: Post) -> None:
        self._context = context
        self._post = post
        self._conflict_told_at = float("-inf")
        self._double_at: Address | None = None
        """Where another daemon with this identity was last heard of; not every word of it says so."""
        self._raised_at = float("-inf")
        self._overtaken_at = float("-inf")
        self._moved_at = float("-inf")
        self._started_at = context.now
        self._failed_incarnation = -1

    def announce(self, now: float) -> None:
        """Queue this host's own statement for gossip."""
        self._context.spread(self._context.own_statement(), now)

    def move(self, address: Address, now: float) -> None:
        """Take another address of this host's own and say so, with a new incarnation."""
        context = self._context
        if address == context.address or context.is_leaving:
            return
        if address in context.former_addresses:
            context.former_addresses.remove(address)
        context.former_addresses.append(context.address)
        context.address = address
        context.introduces_until = now + INTRODUCE_S
        context.counters["moves"] += 1
        self._raise_above(context.incarnation, now)

    def handle_statement(self, statement: Statement, teller: Member | None, now: float) -> None:
        """Take what a peer says of this host."""
        context = self._context
        if context.is_leaving:
            return
        if statement.epoch < context.epoch:
            self._compare_older(statement, now)
            return
        if statement.epoch > context.epoch:
            self._handle_later_run(statement, now)
        elif statement.kind is Reachability.LEFT:
            self.report_conflict(statement.address, "another daemon said goodbye in this host's name", now)
        elif statement.kind is Reachability.ALIVE:
            self._compare(statement, now)
        elif statement.accuser not in ("", context.host_id):
            self._refute(statement, teller, now)

    def report_conflict(self, address: Address | None, reason: str, now: float) -> None:
        """Say that another daemon uses this host's identity; at most once a minute."""
        self._context.counters["conflicts/self"] += 1
        if address not in (None, self._context.address):
            self._double_at = address
        if now - self._conflict_told_at >= CONFLICT_SILENCE_S:
            self._conflict_told_at = now
            self._context.emit(
                IdentityConflict(
                    self._context.host_id,
                    self._double_at or self._context.address,
                    f"{reason}; {ADVICE}",
                    is_here=True,
                )
            )

    def _compare(self, statement: Statement, now: float) -> None:
        context = self._context
        is_elsewhere = statement.address not in (None, context.address)
        if statement.address in context.former_addresses and statement.incarnation >= context.incarnation:
            # Somebody heard of the new incarnation before the move that it stands for: once more, then.
            if now - self._moved_at >= context.parameters.gossip_interval_s:
                self._moved_at = now
                self._raise_above(statement.incarnation, now)
        elif statement.incarnation > context.incarnation:
            self.report_conflict(statement.address, "another daemon raised this host's incarnation", now)
            if now - self._raised_at >= RAISE_SILENCE_S:
                self._raised_at = now
                self._raise_above(statement.incarnation, now)
        elif is_elsewhere and statement.incarnation == context.incarnation:
            self.report_conflict(statement.address, f"another daemon claims it from {statement.address}", now)

    def _compare_older(self, statement: Statement, now: float) -> None:
        is_elsewhere = statement.address not in (None, self._context.address)
        is_late = now - self._started_at > EPOCH_OVERLAP_S
        if statement.kind is Reachability.ALIVE and is_elsewhere and is_late:
            reason = f"another daemon runs at {statement.address} as older epoch {statement.epoch}"
            self.report_conflict(statement.address, reason, now)

    def _handle_later_run(self, statement: Statement, now: float) -> None:
        """Tell a later run of this host's own, of which its state was lost, from another daemon's.

        What is dead, or is held alive at this very address, is this host's past: a disk that was lost or
        restored from a backup. It goes on above it, else nobody would take its word for as long as they
        remember. Alive elsewhere, it is another daemon, and neither of the two outbids the other.
        """
        context = self._context
        is_dead = statement.kind is Reachability.LEFT or (
            statement.kind is Reachability.FAILED and statement.accuser not in ("", context.host_id)
        )
        if not is_dead and statement.address is None:
            return  # a suspicion, without saying where: the verdict or a row of a table follows
        if (not is_dead and statement.address != context.address) or statement.epoch >= MAX_EPOCH - 1:
            self.report_conflict(statement.address, f"another daemon runs as epoch {statement.epoch}", now)
            return
        if now - self._overtaken_at < RAISE_SILENCE_S:
            return
        self._overtaken_at = self._started_at = now
        context.epoch = statement.epoch + 1
        self._failed_incarnation = -1
        context.counters["epochs_overtaken"] += 1
        context.emit(EpochOvertaken(statement.epoch, context.epoch))
        self.announce(now)

    def _refute(self, statement: Statement, teller: Member | None, now: float) -> None:
        context = self._context
        if statement.incarnation >= context.incarnation:
            self._raise_above(statement.incarnation, now)
            context.awareness.add(1)
            context.counters["refutations"] += 1
            context.emit(SelfAccused(context.incarnation, statement.kind, statement.accuser))
        elif statement.kind is Reachability.FAILED and statement.incarnation > self._failed_incarnation:
            # An earlier suspicion was refuted already, but somebody had gone on to the verdict meanwhile.
            context.emit(SelfAccused(context.incarnation, statement.kind, statement.accuser))
        if statement.kind is Reachability.FAILED:
            self._failed_incarnation = max(self._failed_incarnation, statement.incarnation)
        # In this order, and once where they are the same: no run may hang on where objects lie in memory.
        self._tell(teller, now)
        self._tell(context.table.get(statement.accuser), now)

    def _tell(self, member: Member | None, now: float) -> None:
        if member is None or now - member.notice_at < self._context.parameters.gossip_interval_s:
            return
        member.notice_at = now
        self._post.send(Gossip(), member.address, member, introduces=True, has_news=False)

    def _raise_above(self, incarnation: int, now: float) -> None:
        context = self._context
        context.incarnation = min(incarnation + 1, MAX_INCARNATION)
        self.announce(now)
