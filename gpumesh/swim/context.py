"""What the parts of one engine share: who this host is, the table, the queues, the counters."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from random import Random
from typing import Final

from gpumesh.model import Address, Identity, Reachability
from gpumesh.swim.agenda import Agenda
from gpumesh.swim.awareness import Awareness
from gpumesh.swim.broadcast import BroadcastQueue
from gpumesh.swim.parameters import DOUBTS_FACTOR, Parameters
from gpumesh.swim.ports import Passenger, SwimEvent
from gpumesh.swim.seal import Sealer
from gpumesh.swim.statement import Statement, Vouch
from gpumesh.swim.table import MemberTable
from gpumesh.swim.wire import Sender, encode_statement

MAX_EVENTS: Final = 65_536
"""Events that wait for the shell; it drains them after each input."""
MAX_FORMER: Final = 4
"""Former addresses that are remembered."""
GOSSIP: Final = ("gossip", None)
DOUBTS: Final = ("doubts", None)
RECLAIM: Final = ("reclaim", None)


class Context:
    """The state that the engine's parts work on. Each part changes it within its own concern."""

    def __init__(
        self,
        *,
        identity: Identity,
        address: Address,
        parameters: Parameters,
        sealer: Sealer,
        passenger: Passenger,
        random: Random,
        now: float,
    ) -> None:
        self.host_id = identity.host_id
        self.epoch = identity.epoch
        self.address = address
        self.parameters = parameters
        self.sealer = sealer
        self.passenger = passenger
        self.random = random
        self.now = now
        self.datagram_bytes = parameters.datagram_bytes
        """Largest datagram now: the parameter, or what the paths to peers carry, if that is less."""
        self.incarnation = 0
        self.beat = 0
        self.is_leaving = False
        self.former_addresses: deque[Address] = deque(maxlen=MAX_FORMER)
        """This host's own, before it moved."""
        self.introduces_until = float("-inf")
        """Until then each datagram carries this host's own statement, for it has just moved."""
        self.table = MemberTable(parameters.num_members)
        self.broadcasts = BroadcastQueue(parameters.num_broadcasts)
        self.agenda = Agenda()
        self.awareness = Awareness(parameters.awareness_max)
        self.counters: Counter[str] = Counter()
        self.events: deque[SwimEvent] = deque(maxlen=MAX_EVENTS)
        self.last_heard_at: float | None = None
        self.doubts: OrderedDict[str, bool] = OrderedDict()
        """Members to probe at once: accused by hearsay, or to be corroborated. True: by all ways at once."""
        self.newcomers: deque[str] = deque(maxlen=parameters.num_members)
        """Members that are to be put into the order of probing."""
        self.wanted_syncs: OrderedDict[str, None] = OrderedDict()
        """Members to run a push/pull with now."""
        self.stream_pings: deque[tuple[str, Address, int]] = deque(maxlen=parameters.num_pending)
        """(member, address, probe) to ping by stream, since datagrams went unanswered."""

    @property
    def num_members(self) -> int:
        """Live members and this host: the n of all formulas."""
        return self.table.num_live + 1

    def sender(self) -> Sender:
        """Return this host as it states itself in each datagram."""
        return Sender(self.host_id, self.epoch, self.incarnation, self.beat)

    def own_statement(self) -> Statement:
        """Return what this host says of itself: alive, or left once it has said goodbye."""
        kind = Reachability.LEFT if self.is_leaving else Reachability.ALIVE
        return Statement(kind, self.host_id, self.epoch, self.incarnation, self.address)

    def spread(self, statement: Statement | Vouch, now: float, *, keeps_others: bool = False) -> None:
        """Queue a statement for gossip, in place of older ones about its subject unless ``keeps_others``."""
        by = statement.voucher if isinstance(statement, Vouch) else statement.accuser
        topic = (statement.host_id, type(statement).__name__, by)
        self.broadcasts.put(statement.host_id, topic, encode_statement(statement), keeps_others=keeps_others)
        if self.broadcasts.num_dropped:
            self.counters["drops/broadcasts"] = self.broadcasts.num_dropped
        self.has_news(now)

    def has_news(self, now: float) -> None:
        """Have the next gossip round come within its interval, if it was waiting for news."""
        self.agenda.set_earlier(GOSSIP, now + self.parameters.gossip_interval_s)

    def emit(self, event: SwimEvent) -> None:
        """Queue an event for the shell."""
        if len(self.events) == MAX_EVENTS:
            self.counters["drops/events"] += 1
        self.events.append(event)

    def doubt(self, host_id: str, now: float, *, is_wide: bool = False) -> bool:
        """Have the member probed at once; return False if too many wait already.

        ``is_wide``: through relays and by stream at the same time, because it stands accused.
        """
        if len(self.doubts) >= self.parameters.num_pending * DOUBTS_FACTOR and host_id not in self.doubts:
            self.counters["drops/doubts"] += 1
            return False
        self.doubts[host_id] = is_wide or self.doubts.get(host_id, False)
        self.agenda.set_earlier(DOUBTS, now)
        return True

    def want_sync(self, host_id: str) -> None:
        """Have a push/pull run with the member soon."""
        if len(self.wanted_syncs) < self.parameters.num_streams:
            self.wanted_syncs[host_id] = None
