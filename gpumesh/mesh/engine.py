"""The engine that daemon and simulator drive: one host's membership, records and leases as one, sans-I/O.

Whatever comes in goes to membership first; then what changed is drained, judged and told. Views are made from
what was judged, never from the engines, and stand until something changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from gpumesh.config import Config
from gpumesh.mesh.events import EventQueue
from gpumesh.mesh.metrics import as_gauges, named
from gpumesh.mesh.news import MemberNews
from gpumesh.mesh.owner import Owner
from gpumesh.mesh.roster import Roster
from gpumesh.mesh.stores import Measured, Stores
from gpumesh.mesh.strangers import Strangers
from gpumesh.model import (
    Address,
    Admission,
    Event,
    HealthReport,
    HostFacts,
    Identity,
    View,
)
from gpumesh.records.clocks import ClockOffset
from gpumesh.records.engine import Records
from gpumesh.swim.engine import Swim
from gpumesh.swim.parameters import Parameters
from gpumesh.swim.ports import (
    EpochOvertaken,
    IdentityConflict,
    MemberChanged,
    MemberForgotten,
    MemberView,
    SelfAccused,
    StreamAction,
    SwimEvent,
)
from gpumesh.swim.seal import Sealer

REJUDGE_S: Final = 0.1
"""Least time between two rounds of judging what changed, so that a flood of news costs one round."""
ROWS_PER_S: Final = 10_000
"""Rows of the member table read a second for judging at most: the wait grows with the fleet."""
BEAT_SLACK: Final = 0.05
"""Share of a heartbeat by which one may be late, to come along with whatever else wakes the host."""
PAUSE_FACTOR: Final = 1.5
"""Heartbeats without any call after which this process stood still: its own beat, which may come late by the
slack, alone calls it once each."""
MAX_VIEW_AGE_S: Final = 1.0
"""How long a view stands while nothing changes: ages of evidence in it are at most this stale."""


class Mesh(Measured):
    """One host's whole brain. Every call takes ``now``, seconds on the host's boot clock.

    ``unix_offset`` makes Unix time of it, for people; no decision is taken on that.
    """

    def __init__(
        self,
        *,
        identity: Identity,
        config: Config,
        facts: HostFacts,
        address: Address,
        sealer: Sealer,
        random: Random,
        now: float,
        unix_offset: float,
    ) -> None:
        self._host_id = identity.host_id
        self._epoch = identity.epoch
        self._address = address
        self._fleet = config.gossip.fleet
        self._lease = config.lease
        self._events = EventQueue()
        self._records = Records(host_id=identity.host_id, epoch=identity.epoch)
        self._records.set_unix_offset(unix_offset)
        self._roster = Roster(
            self_id=identity.host_id, records=self._records, config=config.lease, events=self._events
        )
        self._owner = Owner(
            records=self._records,
            facts=facts,
            config=config.lease,
            has_seeds=bool(config.gossip.seeds),
            is_first_run=identity.is_first_run,
            now=now,
        )
        self._swim = Swim(
            identity=identity,
            address=address,
            fleet=config.gossip.fleet,
            parameters=Parameters.for_profile(config.gossip.profile),
            sealer=sealer,
            passenger=self._records,
            random=random,
            now=now,
        )
        self._strangers = Strangers()
        self._news = MemberNews(identity.host_id, self._roster, self._events)
        self._stores = Stores(
            self._swim, self._records, self._roster, self._events, self._strangers, self._news
        )
        self._counters: Counter[str] = Counter()
        self._has_left = False
        self._beat_at = now
        self._called_at = now
        self._rejudge_at = now
        self._sweep_at: float | None = now
        self._dirty: set[str] = {identity.host_id}
        self._view: View | None = None
        self._settle(now)

    # What comes in.

    def seed(self, addresses: Sequence[Address], now: float) -> None:
        """Take freshly resolved seeds and cached peers; this host's own address among them is no peer."""
        self._wake(now)
        if addresses:
            self._owner.handle_seeds(has_others=any(address != self._address for address in addresses))
        self._swim.seed(addresses, now)
        self._settle(now)

    def wants_seeds(self, now: float) -> bool:
        """Tell whether it is time to resolve the seeds again."""
        return self._swim.wants_seeds(now)

    def handle_datagram(self, data: bytes, source: Address, now: float) -> None:
        """Take one datagram; never raises, drops are counted."""
        self._wake(now)
        self._swim.handle_datagram(data, source, now)
        self._settle(now)

    def handle_unreachable(self, address: Address, now: float) -> None:
        """Take the kernel's word that nobody listens at an address."""
        self._wake(now)
        self._swim.handle_unreachable(address, now)
        self._settle(now)

    def handle_stream_accepted(self, source: Address, now: float) -> int | None:
        """Return the number of a new stream, None to refuse it."""
        self._wake(now)
        stream_id = self._swim.handle_stream_accepted(source, now)
        self._settle(now)
        return stream_id

    def handle_stream_opened(self, stream_id: int, now: float) -> None:
        """Take the word that a stream asked for is open."""
        self._wake(now)
        self._swim.handle_stream_opened(stream_id, now)
        self._settle(now)

    def handle_stream_data(self, stream_id: int, data: bytes, now: float) -> None:
        """Take bytes of a stream, in any chunks."""
        self._wake(now)
        self._swim.handle_stream_data(stream_id, data, now)
        self._settle(now)

    def handle_stream_closed(self, stream_id: int, now: float) -> None:
        """Take the word that a stream ended or could not be opened."""
        self._wake(now)
        self._swim.handle_stream_closed(stream_id, now)
        self._settle(now)

    def handle_timer(self, now: float) -> None:
        """Do all that fell due."""
        self._wake(now)
        self._swim.handle_timer(now)
        self._settle(now, self._beat(now) if now >= self._beat_at else None)

    def set_address(self, address: Address, now: float) -> None:
        """Take another address at which peers reach this host: its network came up later, or changed."""
        self._wake(now)
        self._address = address
        self._swim.set_address(address, now)
        self._dirty.add(self._host_id)
        self._settle(now)

    def limit_datagrams(self, path_bytes: int) -> None:
        """Send no larger datagram than the paths to peers carry."""
        self._swim.limit_datagrams(path_bytes)

    def set_health(self, report: HealthReport, now: float) -> None:
        """Take the health layer's conclusion about this host and publish what changed."""
        self._wake(now)
        self._roster.set_own_health(report)
        self._owner.set_health(report, now)
        self._dirty.add(self._host_id)
        self._settle(now)

    def set_facts(self, facts: HostFacts, now: float) -> None:
        """Take changed facts about this host: new labels after a reload, for one."""
        self._wake(now)
        self._owner.set_facts(facts)
        self._settle(now)

    def set_admission(self, admission: Admission, reason: str, now: float) -> None:
        """Take the owner's word about new work: cordon, drain, or what sharing says."""
        self._wake(now)
        self._owner.set_admission(admission, reason)
        self._settle(now)

    def leave(self, now: float) -> None:
        """Say goodbye; from now on only answer."""
        self._wake(now)
        self._has_left = True
        self._swim.leave(now)
        self._dirty.add(self._host_id)
        self._settle(now)

    # What goes out.

    def datagrams_to_send(self) -> list[tuple[bytes, Address]]:
        """Drain the datagrams to send."""
        return self._swim.datagrams_to_send()

    def next_stream_action(self) -> StreamAction | None:
        """Drain what is to be done to streams, one at a time; None when nothing is left."""
        return self._swim.next_stream_action()

    def next_event(self) -> Event | None:
        """Drain what happened, oldest first; None when nothing is left."""
        return self._events.take()

    def next_deadline(self) -> float:
        """Return when :meth:`handle_timer` is next needed."""
        earliest_at = self._beat_at + BEAT_SLACK * self._lease.heartbeat_s
        for at in (
            self._swim.next_deadline(),
            self._sweep_at,
            self._owner.next_deadline(self._swim.last_heard_at),
            self._news.next_deadline(),
            self._rejudge_at if self._dirty else None,
        ):
            if at is not None and at < earliest_at:
                earliest_at = at
        return earliest_at

    def view(self, now: float) -> View:
        """Return the fleet as this host sees it; the same value until something changes or it grows old."""
        self._wake(now)
        if self._dirty or (self._sweep_at is not None and now >= self._sweep_at):
            self._judge(now)
        view = self._view
        if view is None or now - view.at > MAX_VIEW_AGE_S:
            rows = self._swim.members()
            view = self._view = View(
                self_id=self._host_id,
                at=now,
                fleet=self._fleet,
                hosts=self._roster.host_views(rows, now),
                mass_failure=self._roster.leases.brake.is_on(self._num_present, now),
            )
        return view

    def members(self) -> Sequence[MemberView]:
        """Return the member table, this host included."""
        return self._swim.members()

    @property
    def unix_offset(self) -> float:
        """What makes Unix time of ``now``."""
        return self._records.unix_offset

    @unix_offset.setter
    def unix_offset(self, unix_offset: float) -> None:
        self._records.set_unix_offset(unix_offset)

    def clock_offset(self, now: float) -> ClockOffset | None:
        """Return how far peers' wall clocks are from this host's; None while none is known."""
        return self._records.clocks.offset(now)

    @property
    def epoch(self) -> int:
        """Which run of this host this is: the one it began with, or above what the fleet remembered."""
        return self._epoch

    @property
    def counters(self) -> Mapping[str, int]:
        """What is counted and measured within, named as the status layer's source asks for.

        ``family/label`` and ``…_total`` count from the start, ``size_…`` is a present length.
        """
        own = Counter(self._counters)
        own["events_dropped"] = self._events.num_dropped
        return {
            **named("", self._swim.counters),
            **named("record_", self._records.counters),
            **named("record_", self._owner.counters),
            **named("record_", self._roster.counters),
            **named("", own),
            **as_gauges(self.queue_sizes, self.queue_limits),
        }

    # What happens within.

    def _wake(self, now: float) -> None:
        """Notice that this host itself had stopped, before its own gap is read as others' silence."""
        gap_s = now - self._called_at
        if gap_s > PAUSE_FACTOR * self._lease.heartbeat_s:
            self._roster.leases.handle_gap(gap_s)
        stall_s = min(self._lease.failures * self._lease.heartbeat_s, self._lease.ttl_s / 2)
        if gap_s > max(stall_s, PAUSE_FACTOR * self._lease.heartbeat_s):
            self._roster.leases.handle_awake(now)
            self._owner.handle_awake(now)
            self._counters["sleeps"] += 1
        self._called_at = max(now, self._called_at)

    def _beat(self, now: float) -> Sequence[MemberView] | None:
        """Raise the heartbeat and have all hosts judged; return the rows read for it."""
        self._beat_at = now + self._lease.heartbeat_s
        if self._has_left:
            return None
        self._swim.beat(now)
        rows = self._swim.members()
        contacts = set(self._records.contacts_since())
        for row in rows:
            if row.host_id in contacts:
                self._roster.leases.handle_contact(row.host_id, row.epoch, row.beat, now)
        members = {row.host_id for row in rows}
        self._roster.leases.forget_all_but(members)
        for host_id in self._strangers.overdue(self._records.hosts(), members, now):
            self._records.forget(host_id)
        self._sweep_at = now
        return rows

    def _settle(self, now: float, rows: Sequence[MemberView] | None = None) -> None:
        """Drain what the engines say, let time act, judge what is due; ``rows`` were read in this call."""
        while (event := self._swim.next_event()) is not None:
            self._handle_swim_event(event, now)
        self._owner.handle_time(self._swim.last_heard_at, now)
        has_news = False
        while (change := self._records.next_change()) is not None:
            self._roster.handle_change(change)
            self._dirty.add(change.host_id)
            has_news = True
        if has_news and not self._has_left:
            self._swim.gossip_soon(now)
        self._news.handle_time(now, self.unix_offset, has_news=has_news)
        is_due = bool(self._dirty) and now >= self._rejudge_at
        if is_due or (self._sweep_at is not None and now >= self._sweep_at):
            self._judge(now, rows)

    def _handle_swim_event(self, event: SwimEvent, now: float) -> None:
        if isinstance(event, MemberForgotten):
            self._roster.forget(event.host_id)
            self._news.handle_forgotten(event.host_id)
            self._view = None
        elif isinstance(event, MemberChanged):
            self._handle_member(event, now)
        elif isinstance(event, SelfAccused):
            self._owner.handle_accused(event.held, now)
            self._news.tell_accused(event, now + self.unix_offset)
        elif isinstance(event, EpochOvertaken):
            self._epoch = event.epoch
            self._records.begin_epoch(event.epoch)
            self._owner.handle_remembered(now)
            self._dirty.add(self._host_id)
        elif isinstance(event, IdentityConflict):
            self._news.tell_conflict(event, now + self.unix_offset)

    def _handle_member(self, change: MemberChanged, now: float) -> None:
        if change.before is None or change.is_new_epoch:
            self._records.welcome(change.host_id)
        self._roster.set_reason(change.host_id, self._news.in_words(change.reason))
        self._dirty.add(change.host_id)
        if change.host_id != self._host_id:
            self._news.handle_member(change, now, self.unix_offset)

    def _judge(self, now: float, rows: Sequence[MemberView] | None = None) -> None:
        """Judge the hosts of which there is news; all of them when a sweep is due."""
        self._owner.handle_members(self._swim.num_others, self._swim.num_left)
        if self._sweep_at is not None and now >= self._sweep_at:
            rows = self._swim.members() if rows is None else rows
        else:
            dirty = map(self._swim.member, sorted(self._dirty))
            rows = [row for row in dirty if row is not None]
        self._roster.judge(rows, now, now + self.unix_offset)
        brake = self._roster.leases.brake
        brake.is_on(self._num_present, now)
        times = (self._roster.next_change_at(), brake.next_deadline())
        # A lease's end in the past would be an endless loop: what is due was just judged.
        self._sweep_at = min((max(at, now + REJUDGE_S) for at in times if at is not None), default=None)
        self._dirty.clear()
        self._rejudge_at = now + REJUDGE_S + self._swim.num_others / ROWS_PER_S
        self._view = None

    @property
    def _num_present(self) -> int:
        """All known hosts that did not say goodbye, this one included until it does."""
        return self._swim.num_others - self._swim.num_left + (not self._has_left)
