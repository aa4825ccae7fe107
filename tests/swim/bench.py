"""One host's belief at a bench: it is told what one likes at any instant; no network."""

from __future__ import annotations

from random import Random

from gpumesh.model import Address, Identity, Reachability
from gpumesh.swim.belief import Belief
from gpumesh.swim.context import Context
from gpumesh.swim.judgement import Judging
from gpumesh.swim.member import Member
from gpumesh.swim.notices import Notices
from gpumesh.swim.parameters import LAN
from gpumesh.swim.ports import MemberChanged
from gpumesh.swim.post import Post
from gpumesh.swim.seal import FleetSealer
from gpumesh.swim.statement import Statement
from tests.swim.link import KEY, QuietPassenger, host_id

ALIVE, SUSPECT, FAILED, LEFT = list(Reachability)
ME, A, B, C, X = (host_id(number) for number in range(5))


class Bench:
    """One host's belief with three peers A, B, C and a subject X, all alive."""

    def __init__(self) -> None:
        self.context = Context(
            identity=Identity(ME, "me", 1, "boot"),
            address=Address("10.0.0.1", 1),
            parameters=LAN,
            sealer=FleetSealer(KEY, "test", bytes(16)),
            passenger=QuietPassenger(),
            random=Random(1),
            now=0.0,
        )
        self.post = Post(self.context)
        notices = Notices(self.context, self.post)
        self.belief = Belief(self.context, notices)
        self.judging = Judging(self.context, notices, self.belief)
        for number, other in enumerate((A, B, C, X)):
            self.tell(ALIVE, other, address=Address("10.0.0.2", number + 1), at=0.0)
        self.context.events.clear()
        self.context.doubts.clear()
        self.context.last_heard_at = 0.0

    @property
    def x(self) -> Member:
        return self.member(X)

    def member(self, other: str) -> Member:
        member = self.context.table.get(other)
        assert member is not None
        return member

    def tell(
        self,
        kind: Reachability,
        subject: str = X,
        *,
        epoch: int = 1,
        incarnation: int = 0,
        address: Address | None = None,
        accuser: str = "",
        at: float = 10.0,
        is_sync: bool = False,
        is_first_hand: bool = False,
    ) -> None:
        statement = Statement(kind, subject, epoch, incarnation, address, accuser)
        self.belief.handle_statement(statement, at, is_sync=is_sync, is_first_hand=is_first_hand)

    def fail(self) -> None:
        """Have X failed on the word of three and a fourth that judged."""
        for accuser in (A, B, C, ME):
            self.tell(SUSPECT, accuser=accuser)
        self.tell(FAILED, accuser=A)
        assert self.x.reachability is FAILED

    def changes(self) -> list[tuple[Reachability | None, Reachability]]:
        events = [event for event in self.context.events if isinstance(event, MemberChanged)]
        return [(event.before, event.after) for event in events]

    def judge_after_last_look(self, at: float) -> None:
        """Judge where nobody confirmed: the first time asks for a look, which the second finds failed."""
        self.judge(at)
        assert self.x.reachability is SUSPECT
        self.judge(at + 2.1)

    def judge(self, at: float) -> None:
        self.context.last_heard_at = at - 0.1
        self.judging.handle_suspicion_due(X, at)
