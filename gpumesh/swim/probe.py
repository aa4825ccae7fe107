"""Probing: who is asked for a sign of life, when, by which ways, and what silence means.

A round (SWIM, section 3.1 and 4.3) takes the next member of a shuffled order, so that each is asked once
before any is asked twice, and a newcomer is put at a random place in what remains. First a direct ping. If
no ack comes within the timeout, k relays are asked to ping and a stream is tried, at once: an answer by any
way counts. Relays say after 80 % of the timeout that they got nothing (nack); nacks that do not come mean
that the fault may be here, and raise the score by which interval and timeout stretch (Lifeguard, section
IV.A).

Besides the rounds, members that stand accused by hearsay are probed at once, and a kernel that answers
"connection refused" for a peer's port skips the direct wait. Both end like a round: an answer vouches,
silence accuses.
"""

from __future__ import annotations

from typing import Final

from gpumesh.model import Address
from gpumesh.swim.belief import Belief
from gpumesh.swim.context import DOUBTS, RECLAIM, Context
from gpumesh.swim.fields import MAX_SEQ
from gpumesh.swim.judgement import Judging
from gpumesh.swim.late import LateAnswers
from gpumesh.swim.member import Member
from gpumesh.swim.notices import Notices
from gpumesh.swim.order import ProbeOrder
from gpumesh.swim.parameters import reclaim_interval
from gpumesh.swim.post import Post
from gpumesh.swim.wire import Ack, Ping, PingReq

ROUND: Final = ("round", None)
DOUBTS_AT_ONCE: Final = 32
"""Doubts settled in one gossip interval: a fleet merging after a partition has thousands."""


class Probe:
    """One question in flight."""

    __slots__ = (
        "address",
        "detour_seq",
        "ends_at",
        "host_id",
        "is_detoured",
        "is_direct",
        "is_refused",
        "is_round",
        "is_stream_refused",
        "judges",
        "num_asked",
        "num_nacks",
        "seq",
        "started_at",
    )

    def __init__(self, seq: int, host_id: str, address: Address, now: float, ends_at: float) -> None:
        self.seq = seq
        self.host_id = host_id
        """Empty when a seed is asked whoever it is."""
        self.address = address
        self.started_at = now
        self.ends_at = ends_at
        self.is_direct = True
        """Still waiting for the direct answer."""
        self.detour_seq: int | None = None
        """Number of the same question, asked where the member calls from instead of at its address."""
        self.is_detoured = False
        """That was the one answered."""
        self.is_round = False
        self.is_refused = False
        """The kernel at the other end said that nobody listens there."""
        self.is_stream_refused = False
        """Nor could a stream be opened."""
        self.judges = False
        """Silence accuses. Not so for seeds, for members that have failed already."""
        self.num_asked = 0
        self.num_nacks = 0


class Probing:
    """The probes of this host's own; :class:`gpumesh.swim.relay.Relaying` serves those of others."""

    def __init__(
        self, context: Context, post: Post, belief: Belief, judging: Judging, notices: Notices
    ) -> None:
        self._context = context
        self._post = post
        self._belief = belief
        self._judging = judging
        self._notices = notices
        self._order = ProbeOrder(context.table, context.random)
        self._pending: dict[int, Probe] = {}
        self._by_target: dict[str, int] = {}
        self._detours: dict[int, Probe] = {}
        self._late = LateAnswers(context.parameters.num_pending)
        self._seq = context.random.getrandbits(63)
        context.agenda.set(ROUND, context.now + context.parameters.probe_interval_s * context.random.random())

    @property
    def num_pending(self) -> int:
        """Questions in flight, for metrics."""
        return len(self._pending)

    @property
    def num_unanswered(self) -> int:
        """Questions that ended in silence and whose answers would still count."""
        return len(self._late)

    @property
    def num_ordered(self) -> int:
        """Members still to be asked in this pass."""
        return len(self._order)

    def next_seq(self) -> int:
        """Return a number that no other question of this run carries."""
        self._seq = (self._seq + 1) % MAX_SEQ
        return self._seq

    def handle_round(self, now: float) -> None:
        """Probe the next member and arrange the next round."""
        context = self._context
        context.agenda.set(ROUND, now + context.awareness.scale(context.parameters.probe_interval_s))
        while context.newcomers:
            self._order.insert(context.newcomers.popleft())
        if len(self._pending) >= context.parameters.num_pending:
            return
        member = self._order.next(self._by_target)
        if member is not None:
            probe = self._begin(member, now)
            probe.is_round = probe.judges = True

    def handle_doubts(self, now: float) -> None:
        """Probe members that stand accused by hearsay, a bounded number at a time."""
        context = self._context
        for _ in range(min(DOUBTS_AT_ONCE, len(context.doubts))):
            if len(self._pending) >= context.parameters.num_pending:
                break
            host_id, is_wide = context.doubts.popitem(last=False)
            member = context.table.get(host_id)
            if member is None or not member.is_live:
                continue
            if host_id in self._by_target:
                self._notices.tell(member, now)
            else:
                probe = self._begin(member, now)
                probe.judges = True
                if is_wide:
                    probe.ends_at = now + context.awareness.scale(context.parameters.probe_timeout_s)
                    self._widen(probe, member, now)
        if context.doubts:
            context.agenda.set_earlier(DOUBTS, now + context.parameters.gossip_interval_s)

    def handle_reclaim(self, now: float) -> None:
        """Try a failed member again and tell it what is held of it, so that it refutes (memberlist#222)."""
        context = self._context
        member = context.table.draw_failed(context.random)
        if member is None:
            return
        wait_s = reclaim_interval(context.parameters, context.num_members, context.table.num_failed)
        context.agenda.set(RECLAIM, now + wait_s * (0.75 + context.random.random() / 2))
        if member.host_id not in self._by_target and len(self._pending) < context.parameters.num_pending:
            self._begin(member, now, has_news=False)

    def ask_seed(self, address: Address, now: float) -> None:
        """Ask whoever answers at this address."""
        if len(self._pending) >= self._context.parameters.num_pending:
            return
        probe = self._add("", address, now)
        self._post.send(Ping(probe.seq, ""), address, introduces=True, has_news=False)

    def handle_ack(self, ack: Ack, sender_id: str, now: float) -> Probe | None:
        """Take a direct answer; return the probe that it settles, None if it settles none.

        An answer by another host than the one asked fails the probe at once: the address has changed hands.
        Not so by one that was refused there before: it says nothing of the one asked, who has other ways.
        """
        probe = self._pending.get(ack.seq) or self._detours.get(ack.seq)
        if probe is None:
            self._context.counters["acks/late"] += 1
            return self._late.take(ack.seq, sender_id)
        is_detoured = ack.seq == probe.detour_seq
        if not probe.host_id or probe.host_id == sender_id:
            probe.is_detoured = is_detoured
            self.settle(probe)
            return probe
        if not is_detoured:  # else the router gave its port to another host: no word about the address
            self._handle_usurper(probe, sender_id, now)
        return None

    def handle_indirect_ack(self, seq: int, subject: str) -> bool:
        """Take an answer by relay or stream; return whether it settles a probe of this host."""
        probe = self._pending.get(seq)
        if probe is None or probe.host_id != subject:
            self._context.counters["acks/late"] += 1
            return self._late.take(seq, subject) is not None
        self.settle(probe)
        return True

    def handle_nack(self, seq: int) -> None:
        """Note that a relay lives although the member does not answer it."""
        probe = self._pending.get(seq)
        if probe is not None and probe.num_nacks < probe.num_asked:
            probe.num_nacks += 1

    def handle_unreachable(self, address: Address, now: float) -> None:
        """Take the kernel's word that nothing listens at an address: try a stream without waiting.

        A refused round asks relays, too. A host that is refused while it does an errand or tells news only
        looks for itself, lest one death set the whole fleet asking.
        """
        context = self._context
        member = context.table.at(address)
        if member is None or not member.is_live or not context.parameters.weighs_evidence:
            return
        if member.way != address:
            return  # the router in front of it, as ever
        seq = self._by_target.get(member.host_id)
        if seq is not None:
            probe = self._pending[seq]
        elif len(self._pending) < context.parameters.num_pending and _is_open(member):
            probe = self._begin(member, now)
            probe.judges = True
        else:
            return
        if probe.is_refused or not probe.judges:
            return
        probe.is_refused = True
        if not probe.is_direct:
            self._conclude_refused(probe, now)  # if the stream that is under way was refused before
        elif probe.is_round:
            self._widen(probe, member, now)
        else:
            context.stream_pings.append((member.host_id, member.address, probe.seq))

    def handle_stream_refused(self, seq: int, now: float) -> None:
        """Take the word that no stream could be opened: with a refused datagram, nobody listens there."""
        probe = self._pending.get(seq)
        if probe is not None:
            probe.is_stream_refused = True
            self._conclude_refused(probe, now)

    def handle_reflected(self, seq: int, now: float) -> None:
        """Take it that a question of this host came back to it: it was asked at its own address."""
        probe = self._pending.get(seq)
        if probe is not None and probe.host_id and probe.address == self._context.address:
            self._handle_usurper(probe, self._context.host_id, now)

    def _conclude_refused(self, probe: Probe, now: float) -> None:
        if not (probe.is_refused and probe.is_stream_refused and probe.judges):
            return
        member = self._context.table.get(probe.host_id)
        if probe.detour_seq is not None and now < probe.ends_at:
            # What refuses may be a router in front of the member, which still may answer where it calls from.
            probe.ends_at = min(probe.ends_at, now + self._context.parameters.probe_timeout_s)
            self._context.agenda.set(("probe", probe.seq), probe.ends_at)
            return
        self._end(probe)
        if member is not None and member.is_live:
            self._blame(probe, member, now)

    def handle_due(self, seq: int, now: float) -> None:
        """Widen a probe whose direct answer did not come, or end one that nobody answered."""
        probe = self._pending.get(seq)
        if probe is None:
            return
        member = self._context.table.get(probe.host_id)
        if probe.judges and probe.is_direct and member is not None and now < probe.ends_at:
            self._widen(probe, member, now)
            return
        self._end(probe)
        self._keep_for_late(probe)
        if probe.judges and member is not None and member.is_live:
            # Unless a stream was refused, too, a filter may have refused the datagram.
            probe.is_refused = probe.is_refused and probe.is_stream_refused
            self._blame(probe, member, now)

    def reap(self, now: float) -> None:
        """Forget questions to which not even a late answer can still come."""
        self._late.reap(now)

    def postpone(self, gap_s: float) -> None:
        """Put all probes off by the time this process stood still."""
        for probe in self._pending.values():
            probe.ends_at += gap_s
            probe.started_at += gap_s

    def settle(self, probe: Probe) -> None:
        """End a probe that was answered."""
        self._end(probe)
        if probe.is_detoured:
            self._keep_for_late(probe)  # its address may be only slower: then that is the way
        if probe.is_round:
            self._context.awareness.add(-1)

    def _begin(self, member: Member, now: float, *, has_news: bool = True) -> Probe:
        probe = self._add(member.host_id, member.address, now)
        self._post.send(
            Ping(probe.seq, member.host_id),
            member.address,
            member,
            introduces=not has_news,
            has_news=has_news,
        )
        if member.way != member.address:
            self._detour(probe, member)
        return probe

    def _detour(self, probe: Probe, member: Member) -> None:
        """Ask the member where it calls from, too: a router in front of it may let in nothing but answers."""
        if member.source is None or probe.detour_seq is not None:
            return
        probe.detour_seq = self.next_seq()
        self._detours[probe.detour_seq] = probe
        self._post.send(Ping(probe.detour_seq, member.host_id), member.source, member)

    def _add(self, host_id: str, address: Address, now: float) -> Probe:
        context = self._context
        ends_at = now + context.awareness.scale(context.parameters.probe_interval_s)
        probe = Probe(self.next_seq(), host_id, address, now, ends_at)
        self._pending[probe.seq] = probe
        if host_id:
            self._by_target[host_id] = probe.seq
        timeout_s = context.awareness.scale(context.parameters.probe_timeout_s)
        context.agenda.set(("probe", probe.seq), now + timeout_s)
        return probe

    def _widen(self, probe: Probe, member: Member, now: float) -> None:
        """Ask relays, open a stream, and ask where the member calls from, all at once."""
        context = self._context
        probe.is_direct = False
        context.agenda.set(("probe", probe.seq), max(probe.ends_at, now + context.parameters.probe_timeout_s))
        relays = context.table.draw(context.random, context.parameters.num_indirect, but=member.host_id)
        for relay in relays:
            self._post.send(PingReq(probe.seq, member.host_id, member.address), relay.way, relay)
        probe.num_asked = len(relays)
        self._detour(probe, member)
        context.stream_pings.append((member.host_id, member.address, probe.seq))

    def _blame(self, probe: Probe, member: Member, now: float) -> None:
        context = self._context
        missing = probe.num_asked - probe.num_nacks
        if probe.is_round and not probe.is_refused:
            context.awareness.add(missing if probe.num_asked else 1)
        context.counters["probes/failed"] += 1
        self._judging.accuse(member, now, is_sound=self._is_sound(probe), is_refused=probe.is_refused)

    def _is_sound(self, probe: Probe) -> bool:
        """Whether this very probe showed that words go out from here and answers come back in time."""
        if probe.is_refused:
            return True
        heard_at = self._context.last_heard_at
        if heard_at is None or heard_at < probe.started_at:
            return False
        return probe.num_nacks > 0 or not probe.num_asked

    def _keep_for_late(self, probe: Probe) -> None:
        if probe.host_id and self._context.parameters.weighs_evidence:
            self._late.expect(probe)

    def _handle_usurper(self, probe: Probe, sender_id: str, now: float) -> None:
        member = self._context.table.get(probe.host_id)
        sender = self._context.table.get(sender_id)
        if member is None or not member.is_live or member.address != probe.address:
            self._end(probe)
        elif sender is not None and not sender.is_live and sender.address == probe.address:
            self._context.counters["acks/contested"] += 1
            if probe.judges and probe.is_direct:
                self._widen(probe, member, now)
        else:
            self._end(probe)
            self._belief.displace(member, sender_id, now)

    def _end(self, probe: Probe) -> None:
        del self._pending[probe.seq]
        if probe.detour_seq is not None:
            del self._detours[probe.detour_seq]
        if self._by_target.get(probe.host_id) == probe.seq:
            del self._by_target[probe.host_id]
        self._context.agenda.cancel(("probe", probe.seq))


def _is_open(member: Member) -> bool:
    """Whether one more look at the member could still change what is held of it."""
    suspicion = member.suspicion
    return suspicion is None or not (suspicion.is_own or suspicion.is_confirmed)
