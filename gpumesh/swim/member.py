"""One row of the member table: what this host believes of one other host."""

from __future__ import annotations

from typing import Final

from gpumesh.errors import TransitionError
from gpumesh.model import Address, Reachability
from gpumesh.swim.ports import MemberView
from gpumesh.swim.statement import TRANSITIONS, Precedence, Statement, precedence
from gpumesh.swim.suspicion import Suspicion

NEVER: Final = float("-inf")
"""One object for all: a fleet of ten thousand has forty thousand of them."""


class Member:
    """A member as known here. Mutable, and changed by the table and the engine's parts alone."""

    __slots__ = (
        "accuser",
        "address",
        "answered_at",
        "answered_there_at",
        "beat",
        "claim",
        "claimed_at",
        "conflict_told_at",
        "contested_at",
        "contested_since_at",
        "doubt",
        "epoch",
        "epoch_since_at",
        "evidence_at",
        "host_id",
        "incarnation",
        "is_refused",
        "notice_at",
        "reachability",
        "refused_incarnation",
        "returns_at",
        "session",
        "since_at",
        "source",
        "suspicion",
        "transport",
        "vouched_at",
    )

    def __init__(self, host_id: str, address: Address, epoch: int, incarnation: int, now: float) -> None:
        self.host_id = host_id
        self.address = address
        self.epoch = epoch
        self.incarnation = incarnation
        self.reachability = Reachability.ALIVE
        self.since_at = now
        self.epoch_since_at = now
        self.evidence_at = now
        """Last word of life, direct or through others."""
        self.answered_at = NEVER
        """Last direct answer from the member itself, bound to a question of this host."""
        self.answered_there_at = NEVER
        """When it last did so at its address, not only where it calls from."""
        self.vouched_at = NEVER
        """When another member last said that it had such an answer."""
        self.session: bytes = b""
        """The sending session that gave a direct answer: what comes in it is known to be fresh."""
        self.accuser = ""
        """Who claimed suspect or failed."""
        self.is_refused = False
        """The accuser was refused by the member's own kernel."""
        self.suspicion: Suspicion | None = None
        self.doubt: Statement | None = None
        """A hearsay accusation that waits for a probe of this host's own."""
        self.notice_at = NEVER
        """When the member was last told of an accusation outside the probes."""
        self.conflict_told_at = NEVER
        self.claim: Statement | None = None
        """By which another lives, too, at this member's address: told to both if this one answers."""
        self.claimed_at = NEVER
        self.contested_at = self.contested_since_at = NEVER
        """When its claim to another's address was last seen, and since when."""
        self.refused_incarnation = -1
        """At which it last said of itself that it lives where another answers."""
        self.beat = 0
        self.source: Address | None = None
        """Where its newest datagram came from, if not its address: a router's, or another interface's.

        Anybody can send a recording from anywhere, and until a newer datagram comes from the member it is
        believed so far that the member is asked there, too.
        """
        self.returns_at: Address | None = None
        """Where it calls from, once it answered a question there while its address did not."""
        self.transport = "udp"

    @property
    def way(self) -> Address:
        """Where datagrams reach it: its address, unless it was seen to answer only where it calls from."""
        return self.returns_at or self.address

    def call_from(self, source: Address) -> None:
        """Note where its newest datagram came from: a router that forgot it gives it another port."""
        self.source = None if source == self.address else source
        if self.returns_at is not None and self.is_live:
            self.returns_at = self.source

    def answer_by(self, transport: str, returns_at: Address | None = None) -> None:
        """Note by which way it answered; ``returns_at``: where, if not at its address."""
        self.transport = transport
        self.returns_at = returns_at

    @property
    def is_live(self) -> bool:
        """Alive or suspect: part of the fleet, probed and told news."""
        return self.reachability is Reachability.ALIVE or self.reachability is Reachability.SUSPECT

    @property
    def precedence(self) -> Precedence:
        """Where the belief held here stands in the order of statements."""
        return precedence(self.reachability, self.epoch, self.incarnation)

    def holds(self, statement: Statement) -> bool:
        """Whether the statement is what this host believes already, accuser and address included."""
        return (
            statement.incarnation == self.incarnation
            and statement.kind is self.reachability
            and statement.epoch == self.epoch
            and statement.accuser == self.accuser
            and (statement.address is None or statement.address == self.address)
        )

    def statement(self, *, has_address: bool = False) -> Statement:
        """Return what this host believes of the member, as a statement."""
        address = self.address if has_address or self.reachability is Reachability.ALIVE else None
        return Statement(
            self.reachability,
            self.host_id,
            self.epoch,
            self.incarnation,
            address,
            self.accuser,
            self.is_refused,
        )

    def accusation(self) -> Statement | None:
        """Return what the member should hear so that it can refute, None if it stands unaccused."""
        if self.reachability is Reachability.SUSPECT or self.reachability is Reachability.FAILED:
            return self.statement()
        return self.doubt

    def turn(self, after: Reachability, epoch: int, incarnation: int, now: float) -> str:
        """Take on a new belief and return the transition's name.

        Raises :class:`TransitionError`, and changes nothing, for what the table of transitions does not hold.
        """
        before = None if epoch != self.epoch else self.reachability
        name = TRANSITIONS.get((before, after))
        if name is None or epoch < self.epoch:
            raise TransitionError(
                f"{self.host_id} is {self.reachability} at epoch {self.epoch}: not {after} at epoch {epoch}"
            )
        if epoch != self.epoch:
            self._begin_epoch(epoch, now)
        elif after is Reachability.LEFT:
            incarnation = max(incarnation, self.incarnation)  # a goodbye may be older than a refutation
        if after is not self.reachability:
            self.since_at = now
        if after is Reachability.ALIVE:
            self.evidence_at = now
            self.accuser = ""
        if after is Reachability.ALIVE or after is Reachability.LEFT:
            self.is_refused = False
        self.reachability = after
        self.incarnation = incarnation
        if after is Reachability.FAILED:
            self.returns_at = None  # a router's port is another's before long
        if after is not Reachability.SUSPECT:
            self.suspicion = None
        self.doubt = None
        return name

    def view(self, evidence_at: float) -> MemberView:
        """Return the row as published; ``evidence_at`` is judged by the engine."""
        return MemberView(
            self.host_id,
            self.address,
            self.epoch,
            self.incarnation,
            self.reachability,
            self.since_at,
            evidence_at,
            self.beat,
            self.transport,
        )

    def _begin_epoch(self, epoch: int, now: float) -> None:
        self.epoch = epoch
        self.epoch_since_at = now
        self.since_at = now
        self.beat = 0
        self.session = b""
        self.answered_at = self.vouched_at = self.notice_at = NEVER
        self.refused_incarnation = -1
        self.source = None
        self.answer_by("udp")
