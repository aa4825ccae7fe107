"""The membership engine: what a shell drives.

Why it is built this way
------------------------
**SWIM** (Das, Gupta, Motivala, DSN 2002) separates finding a failure from telling of it. Each member
probes one other in each interval, in random round-robin order (section 4.3), directly and then through k
relays (3.1), and all news rides on those very messages (4.1). So the cost a host is constant whatever the
size of the fleet, and the time to first detection too. A member that does not answer is suspected before
it is failed (4.2), and may refute by raising its incarnation.

**Lifeguard** (Dadgar, Phillips, Currey, 2018) saw that most false accusations come from accusers that are
themselves slow: they read acks late and blame the sender. Its three answers are here: a score of local
health stretches the accuser's patience (:mod:`.awareness`), a suspicion shrinks only as independent
accusers confirm it (:mod:`.suspicion`), and a suspect hears of it in the very next message (:mod:`.post`,
:mod:`.notices`).

**Beyond both**: hearsay is examined, direct evidence vouches, and the deaf do not judge (:mod:`.belief`); a
process that stood still puts its own judgements off by the gap (:meth:`Swim.handle_timer`); the failed are
tried for ever and told what is held of them, so that halves of a partition merge by themselves
(:mod:`.probe`); a newer run of a host replaces the older at once (:mod:`.statement`).

How it is put together
----------------------
The engine does no I/O: time, randomness, datagrams and bytes of streams come in; datagrams, stream
actions and events go out. :class:`Swim` only routes. :class:`.context.Context` holds the shared state,
and each part owns one concern: ``probe`` and ``relay`` ask, ``belief``, ``judgement`` and ``defence`` judge
what is said of others and of this host, ``gossip`` and ``post`` tell, ``sync`` and ``seeds`` repair and
find. A shell must hand in all datagrams that wait before it calls ``handle_timer``: an ack in the socket's
queue must be seen before its deadline is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from gpumesh.errors import RejectedError, TransitionError
from gpumesh.model import Address, Identity, Reachability
from gpumesh.swim.agenda import Key
from gpumesh.swim.belief import Belief
from gpumesh.swim.context import DOUBTS, GOSSIP, RECLAIM, Context
from gpumesh.swim.defence import Defence
from gpumesh.swim.fields import canonical, id_to_wire
from gpumesh.swim.gossip import FAREWELL, Spreading
from gpumesh.swim.intake import Intake
from gpumesh.swim.judgement import Judging
from gpumesh.swim.member import Member
from gpumesh.swim.notices import Notices
from gpumesh.swim.parameters import MIN_DATAGRAM_BYTES, Parameters
from gpumesh.swim.ports import MemberView, Passenger, StreamAction, SwimEvent
from gpumesh.swim.post import Post
from gpumesh.swim.probe import ROUND, Probing
from gpumesh.swim.relay import Relaying
from gpumesh.swim.seal import Sealer
from gpumesh.swim.seeds import SEEDS, Seeding
from gpumesh.swim.stores import Stores
from gpumesh.swim.sync import SYNC, Streams

REAP: Final = ("reap", None)
REAP_INTERVAL_S: Final = 60.0
JUDGEMENTS: Final = frozenset({"probe", "errand", "suspicion"})
"""Timers that end in a verdict about somebody else: put off when this process stood still."""
UNDERTAKINGS: Final = frozenset({ROUND, DOUBTS, RECLAIM, GOSSIP, SYNC, SEEDS})
"""What this host does of itself, and no longer once it has said goodbye."""
MAX_STEPS: Final = 4_096
"""Timers handled in one call; what is left stays due."""


class Swim:
    """One host's membership: everything it believes about who is in the fleet.

    ``identity.host_id`` must be a canonical UUID and ``address`` hold an IP literal, else
    :class:`ValueError`. ``fleet`` is the label; the sealer must have been made for it. ``now`` is monotonic
    seconds throughout, and should go on during suspend (CLOCK_BOOTTIME). No method raises on what comes
    from outside.
    """

    def __init__(
        self,
        *,
        identity: Identity,
        address: Address,
        fleet: str,
        parameters: Parameters,
        sealer: Sealer,
        passenger: Passenger,
        random: Random,
        now: float,
    ) -> None:
        id_to_wire(identity.host_id)
        self.fleet = fleet
        self._alive_since_at = now
        self._context = Context(
            identity=identity,
            address=canonical(address),
            parameters=parameters,
            sealer=sealer,
            passenger=passenger,
            random=random,
            now=now,
        )
        self._assemble()
        self._handlers = self._recurring()
        self._context.agenda.set(REAP, now + REAP_INTERVAL_S)
        self._defence.announce(now)

    def _assemble(self) -> None:
        self._post = Post(self._context)
        notices = Notices(self._context, self._post)
        self._belief = Belief(self._context, notices)
        self._defence = Defence(self._context, self._post)
        self._judging = Judging(self._context, notices, self._belief)
        self._probing = Probing(self._context, self._post, self._belief, self._judging, notices)
        self._relaying = Relaying(self._context, self._post, self._probing)
        self._spreading = Spreading(self._context, self._post)
        self._intake = Intake(
            context=self._context,
            post=self._post,
            belief=self._belief,
            notices=notices,
            defence=self._defence,
            probing=self._probing,
            relaying=self._relaying,
        )
        self._streams = Streams(
            self._context,
            self._intake.handle_hello,
            self._intake.handle_row,
            self._intake.handle_stream_answer,
            self._probing.handle_stream_refused,
        )
        self._intake.streams = self._streams
        self._stores = Stores(self._context, self._post, self._probing, self._relaying, self._streams)
        self._seeding = Seeding(self._context, self._probing, self._streams)

    def _recurring(self) -> dict[Key, Callable[[float], None]]:
        return {
            ROUND: self._probing.handle_round,
            DOUBTS: self._probing.handle_doubts,
            RECLAIM: self._probing.handle_reclaim,
            GOSSIP: self._spreading.handle_round,
            FAREWELL: self._spreading.handle_farewell,
            SYNC: self._streams.handle_sync,
            SEEDS: self._seeding.handle_due,
            REAP: self._reap,
        }

    # What comes in ---------------------------------------------------------------------------------------

    def seed(self, addresses: Sequence[Address], now: float) -> None:
        """Take freshly resolved seeds and cached peers, and call some of those that are not members yet."""
        self._enter(now)
        self._seeding.seed(addresses, now)

    def wants_seeds(self, now: float) -> bool:
        """Return whether seeds should be resolved and handed in now."""
        return self._seeding.wants_seeds(now)

    def handle_datagram(self, data: bytes, source: Address, now: float) -> None:
        """Take one datagram. What is not understood is dropped and counted as ``drops/<reason>``."""
        self._enter(now)
        try:
            self._intake.handle_datagram(data, source, now)
        except RejectedError as error:
            self._context.counters["drops/" + error.reason] += 1
        except TransitionError:
            self._context.counters["drops/transition"] += 1
        else:
            self._streams.start_wanted(now)

    def handle_unreachable(self, address: Address, now: float) -> None:
        """Take the kernel's word (ECONNREFUSED) that nothing listens there; others are asked at once."""
        self._enter(now)
        self._probing.handle_unreachable(address, now)
        self._streams.start_wanted(now)

    def handle_stream_accepted(self, source: Address, now: float) -> int | None:
        """Take a stream opened by a peer; return its id, None if there are too many."""
        self._enter(now)
        return self._streams.handle_accepted(source, now)

    def handle_stream_opened(self, stream_id: int, now: float) -> None:
        """Note that a stream asked for by ``OpenStream`` is connected."""
        self._enter(now)
        self._streams.handle_opened(stream_id, now)

    def handle_stream_data(self, stream_id: int, data: bytes, now: float) -> None:
        """Take bytes of a stream in any chunking; unknown streams are ignored."""
        self._enter(now)
        self._streams.handle_data(stream_id, data, now)
        self._streams.start_wanted(now)

    def handle_stream_closed(self, stream_id: int, now: float) -> None:
        """Note that the other end closed a stream, or that it could not be opened."""
        self._enter(now)
        self._streams.handle_closed(stream_id, now)

    def handle_timer(self, now: float) -> None:
        """Do what is due. Called long after the deadline, this process stood still: it doubts itself first.

        Deadlines of judgement are put off by the gap and the score of local health rises, because the time
        that passed was nobody's chance to answer (akka PR 30335: a stopped process that goes on accuses
        everybody).
        """
        self._enter(now)
        agenda = self._context.agenda
        due_at = agenda.next_at()
        if due_at is None or due_at > now:
            return
        parameters = self._context.parameters
        if parameters.weighs_evidence and now - due_at > parameters.stall_s:
            self._postpone(now - due_at)
        for _ in range(MAX_STEPS):
            key = agenda.take_due(now)
            if key is None:
                break
            self._handle_due(key, now)
        self._streams.start_wanted(now)
        self._seeding.arrange(now)

    def beat(self, now: float) -> None:
        """Raise the heartbeat number that rides on all messages: the host has just looked at itself."""
        self._enter(now)
        self._context.beat += 1

    def set_address(self, address: Address, now: float) -> None:
        """Take another address of this host's own and tell the fleet. ValueError: no IP literal."""
        self._enter(now)
        self._defence.move(canonical(address), now)

    def limit_datagrams(self, path_bytes: int) -> None:
        """Send no larger datagram than the paths to peers carry; the parameter stays the most there is.

        Nor is it ever less than what each path has to carry: :data:`.parameters.MIN_DATAGRAM_BYTES`.
        """
        most = self._context.parameters.datagram_bytes
        self._context.datagram_bytes = min(most, max(path_bytes, MIN_DATAGRAM_BYTES))

    def gossip_soon(self, now: float) -> None:
        """Have the passenger's news fetched at the next gossip interval, instead of the next idle look."""
        self._enter(now)
        self._context.has_news(now)

    def leave(self, now: float) -> None:
        """Say goodbye to a dozen members at once, twice more shortly after, and from then on only answer."""
        self._enter(now)
        if self._context.is_leaving:
            return
        self._context.is_leaving = True
        for key in UNDERTAKINGS:
            self._context.agenda.cancel(key)
        self._spreading.handle_farewell(now)

    # What goes out ---------------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when ``handle_timer`` is to be called next, None for never."""
        return self._context.agenda.next_at()

    def datagrams_to_send(self) -> list[tuple[bytes, Address]]:
        """Return all datagrams that wait to go out, and keep none."""
        return self._post.drain()

    def next_stream_action(self) -> StreamAction | None:
        """Return the next thing to do with a stream, None when nothing waits."""
        actions = self._streams.actions
        return actions.popleft() if actions else None

    def next_event(self) -> SwimEvent | None:
        """Return the next event, None when nothing waits."""
        events = self._context.events
        return events.popleft() if events else None

    def members(self) -> Sequence[MemberView]:
        """Return all rows of the table and this host's own.

        An alive, unaccused member counts as evidenced by the last word from anybody: had it failed, that
        fleet would have said so. A host that hears nobody has no such evidence.
        """
        heard_at = self._heard_at
        return [self._own_view(), *[_view(member, heard_at) for member in self._context.table]]

    def member(self, host_id: str) -> MemberView | None:
        """Return one of these rows, None for a host that is not known."""
        if host_id == self._context.host_id:
            return self._own_view()
        member = self._context.table.get(host_id)
        return None if member is None else _view(member, self._heard_at)

    @property
    def num_others(self) -> int:
        """How many other hosts are known, gone ones included."""
        return len(self._context.table)

    @property
    def num_left(self) -> int:
        """How many of them said goodbye."""
        return self._context.table.num_left

    @property
    def last_heard_at(self) -> float | None:
        """When any other host of the fleet was last heard, None if never."""
        return self._context.last_heard_at

    @property
    def incarnation(self) -> int:
        """This host's own incarnation."""
        return self._context.incarnation

    @property
    def awareness(self) -> int:
        """The score of local health, 0 is healthy."""
        return self._context.awareness.score

    @property
    def counters(self) -> Mapping[str, int]:
        """What happened so far: ``drops/<reason>``, ``sent/<kind>``, ``received/<kind>`` and others."""
        return self._context.counters

    @property
    def queue_sizes(self) -> Mapping[str, int]:
        """How much each bounded store holds now, for metrics."""
        return self._stores.sizes()

    @property
    def queue_limits(self) -> Mapping[str, int]:
        """How much each of them may hold."""
        return self._stores.limits()

    # Inside ----------------------------------------------------------------------------------------------

    def _enter(self, now: float) -> None:
        self._context.now = max(self._context.now, now)

    def _handle_due(self, key: Key, now: float) -> None:
        handler = self._handlers.get(key)
        if handler is not None:
            if key not in UNDERTAKINGS or not self._context.is_leaving:
                handler(now)
            return
        kind, subject = key
        if kind == "suspicion" and isinstance(subject, str):
            self._judging.handle_suspicion_due(subject, now)
        elif isinstance(subject, int):
            if kind == "probe":
                self._probing.handle_due(subject, now)
            elif kind == "errand":
                self._relaying.handle_due(subject, now)
            else:
                self._streams.handle_due(subject)

    def _postpone(self, gap_s: float) -> None:
        context = self._context
        context.agenda.postpone(gap_s, JUDGEMENTS.__contains__)
        self._judging.postpone(gap_s)
        self._probing.postpone(gap_s)
        context.awareness.add(1)
        context.counters["stalls"] += 1

    def _reap(self, now: float) -> None:
        context = self._context
        context.agenda.set(REAP, now + REAP_INTERVAL_S)
        self._probing.reap(now)
        parameters = context.parameters
        for member in context.table.expired(now, parameters.failed_retention_s, parameters.left_retention_s):
            self._belief.forget(member)

    def _own_view(self) -> MemberView:
        context = self._context
        kind = Reachability.LEFT if context.is_leaving else Reachability.ALIVE
        return MemberView(
            context.host_id,
            context.address,
            context.epoch,
            context.incarnation,
            kind,
            self._alive_since_at,
            context.now,
            context.beat,
        )

    @property
    def _heard_at(self) -> float:
        heard_at = self._context.last_heard_at
        return float("-inf") if heard_at is None else heard_at


def _view(member: Member, heard_at: float) -> MemberView:
    is_vouched = member.reachability is Reachability.ALIVE and heard_at > member.evidence_at
    return member.view(heard_at if is_vouched else member.evidence_at)
