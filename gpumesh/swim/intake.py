"""The way in: a message is word of its sender first, then news, then a question or an answer."""

from __future__ import annotations

from gpumesh.errors import ReflectedError, RejectedError
from gpumesh.model import Address, Reachability
from gpumesh.swim.belief import Belief
from gpumesh.swim.conflict import ADVICE, Conflicts
from gpumesh.swim.context import Context
from gpumesh.swim.defence import EPOCH_OVERLAP_S, Defence
from gpumesh.swim.fields import canonical
from gpumesh.swim.frames import Hello, Row
from gpumesh.swim.member import Member
from gpumesh.swim.notices import Notices
from gpumesh.swim.post import Post
from gpumesh.swim.probe import Probing
from gpumesh.swim.relay import Relaying
from gpumesh.swim.seal import Opened
from gpumesh.swim.statement import Statement, Vouch
from gpumesh.swim.sync import Streams
from gpumesh.swim.wire import (
    MAX_DATAGRAM_BYTES,
    NAMES,
    Ack,
    Datagram,
    Gossip,
    Nack,
    Ping,
    PingReq,
    RelayedAck,
    Sender,
    decode,
)


class Intake:
    """Opens, decodes and routes what comes in. ``streams`` is set once, when the engine is put together."""

    streams: Streams

    def __init__(
        self,
        *,
        context: Context,
        post: Post,
        belief: Belief,
        notices: Notices,
        defence: Defence,
        probing: Probing,
        relaying: Relaying,
    ) -> None:
        self._context = context
        self._post = post
        self._belief = belief
        self._notices = notices
        self._defence = defence
        self._probing = probing
        self._relaying = relaying
        self._conflicts = Conflicts(context, notices)

    def handle_datagram(self, data: bytes, source: Address, now: float) -> None:
        """Take one datagram; raises :class:`RejectedError`, before anything was changed.

        A question of this host's own that came back to it is an answer all the same, and then rejected.
        """
        if len(data) > MAX_DATAGRAM_BYTES:
            raise RejectedError("too_large")
        opened = self._open(data, now)
        datagram = decode(opened.body)
        context = self._context
        context.counters["received/" + NAMES[type(datagram.primary)]] += 1
        if datagram.sender.host_id == context.host_id:
            self._handle_namesake(datagram, source, now)
            return
        context.last_heard_at = now
        self._hear_move(datagram, now)
        member = self._hear_sender(datagram.sender, source, opened.session, now)
        if member is not None and opened.is_newest:
            member.call_from(source)
        for statement in datagram.statements:
            self._handle_statement(statement, member, now)
        if member is None:
            member = context.table.get(datagram.sender.host_id)
        self._handle_primary(datagram, source, opened.session, member, now)
        for update in datagram.updates:
            context.passenger.handle_update(update, now)
        if datagram.updates:
            context.has_news(now)
        if datagram.digest:
            context.passenger.handle_digest(datagram.sender.host_id, datagram.digest, now)

    def _open(self, data: bytes, now: float) -> Opened:
        try:
            return self._context.sealer.open(data)
        except ReflectedError as error:
            primary = decode(error.body).primary
            if isinstance(primary, Ping):
                self._probing.handle_reflected(primary.seq, now)
            raise

    def handle_hello(self, hello: Hello, now: float) -> bool:
        """Take the introduction of a stream's other end; return False to hang up."""
        context = self._context
        sender = hello.sender
        if sender.host_id == context.host_id:
            if (sender.epoch, hello.address) == (context.epoch, context.address):
                context.counters["drops/own_stream"] += 1  # called by an address that leads back here
                return False
            self._defence.report_conflict(hello.address, f"another daemon answers from {hello.address}", now)
            return False
        context.last_heard_at = now
        if not hello.is_leaving:
            statement = Statement(
                Reachability.ALIVE, sender.host_id, sender.epoch, sender.incarnation, hello.address
            )
            self._belief.handle_statement(statement, now, is_first_hand=True)
        member = context.table.get(sender.host_id)
        if member is not None and member.epoch == sender.epoch:
            member.beat = max(member.beat, sender.beat)
            self._belief.handle_evidence(member, sender.incarnation, now, is_proven=True)
        return True

    def handle_row(self, row: Row, now: float, is_joining: bool) -> None:
        """Take one row of a peer's table; ``is_joining``: this host knew nobody when the stream began."""
        if row.statement.host_id == self._context.host_id:
            self._defence.handle_statement(row.statement, None, now)
        elif row.statement.host_id in self._context.table or not self._is_expired(row):
            self._belief.handle_statement(
                row.statement, now, is_sync=True, is_joining=is_joining, age_s=row.age_s
            )

    def handle_stream_answer(self, seq: int, hello: Hello) -> None:
        """Take the answer to a stream ping; the introduction has been taken as evidence already."""
        if self._probing.handle_indirect_ack(seq, hello.sender.host_id):
            member = self._context.table.get(hello.sender.host_id)
            if member is None:
                return
            if member.transport == "stream":
                self._context.want_sync(member.host_id)  # datagrams do not get through: bring news this way
            member.answer_by("stream")

    def _hear_move(self, datagram: Datagram, now: float) -> None:
        """Take a known sender's new address, before its incarnation is taken for one at the old address."""
        sender = datagram.sender
        member = self._context.table.get(sender.host_id)
        if member is None or sender.epoch != member.epoch or sender.incarnation <= member.incarnation:
            return
        for statement in datagram.statements:
            if (
                isinstance(statement, Statement)
                and statement.host_id == sender.host_id
                and statement.incarnation == sender.incarnation
                and statement.address not in (None, member.address)
            ):
                self._belief.handle_statement(statement, now)

    def _is_expired(self, row: Row) -> bool:
        parameters = self._context.parameters
        if row.statement.kind is Reachability.LEFT:
            return row.age_s >= parameters.left_retention_s
        return row.statement.kind is Reachability.FAILED and row.age_s >= parameters.failed_retention_s

    def _hear_sender(self, sender: Sender, source: Address, session: bytes, now: float) -> Member | None:
        """Take what the sender states of itself; return it if it is known at this epoch."""
        member = self._context.table.get(sender.host_id)
        if member is None:
            return None
        if sender.epoch < member.epoch:
            if now - member.epoch_since_at > EPOCH_OVERLAP_S and source != member.address:
                reason = f"two daemons claim {member.host_id}: epoch {member.epoch} at {member.address}, "
                reason += f"epoch {sender.epoch} at {source}; {ADVICE}"
                self._report_older(member, sender, source, reason, now)
            return None
        if sender.epoch > member.epoch:
            if source != member.address:
                return None  # it will be asked to introduce itself, with its address
            renewed = Statement(Reachability.ALIVE, sender.host_id, sender.epoch, sender.incarnation, source)
            self._belief.take(member, renewed, now)
        member.beat = max(member.beat, sender.beat)
        self._belief.handle_evidence(member, sender.incarnation, now, is_proven=session == member.session)
        return member

    def _report_older(self, member: Member, sender: Sender, source: Address, reason: str, now: float) -> None:
        try:
            address = canonical(source)
        except ValueError:
            return  # a scoped address, which means nothing elsewhere
        claim = Statement(Reachability.ALIVE, sender.host_id, sender.epoch, sender.incarnation, address)
        self._notices.report_conflict(member, claim, address, reason, now)

    def _handle_statement(self, statement: Statement | Vouch, teller: Member | None, now: float) -> None:
        is_own = statement.host_id == self._context.host_id
        if isinstance(statement, Vouch):
            if not is_own:
                self._belief.handle_vouch(statement, now)
        elif is_own:
            self._defence.handle_statement(statement, teller, now)
        else:
            speakers = (statement.accuser, statement.host_id)
            is_first_hand = teller is not None and teller.host_id in speakers
            self._belief.handle_statement(statement, now, is_first_hand=is_first_hand)

    def _handle_primary(
        self, datagram: Datagram, source: Address, session: bytes, member: Member | None, now: float
    ) -> None:
        primary, sender = datagram.primary, datagram.sender
        if isinstance(primary, Ping):
            is_stranger = member is None or member.epoch < sender.epoch
            self._post.send(Ack(primary.seq, is_stranger), source, member, introduces=not primary.target)
        elif isinstance(primary, Ack):
            self._handle_ack(datagram, primary, source, session, now)
        elif isinstance(primary, PingReq):
            self._relaying.handle_request(primary, source, now)
        elif isinstance(primary, RelayedAck):
            self._handle_relayed_ack(primary, now)
        elif isinstance(primary, Nack):
            self._probing.handle_nack(primary.seq)
        if member is None or member.reachability is not Reachability.FAILED:
            return
        is_proven = session == member.session
        is_refused = self._conflicts.handle_word(member, sender.incarnation, source, now, is_proven=is_proven)
        if not is_refused and not isinstance(primary, Ping):
            self._notices.tell(member, now, source)

    def _handle_ack(self, datagram: Datagram, ack: Ack, source: Address, session: bytes, now: float) -> None:
        sender = datagram.sender
        if self._relaying.handle_ack(ack, (sender.host_id, sender.epoch, sender.incarnation)):
            return
        probe = self._probing.handle_ack(ack, sender.host_id, now)
        member = self._context.table.get(sender.host_id)
        if ack.is_stranger:
            self._post.send(Gossip(), source, member, introduces=True, has_news=False)
        if probe is None:
            return
        if member is not None and member.epoch == sender.epoch:
            member.session = session
            if probe.is_detoured:
                member.answer_by("return", source)
            else:
                member.answer_by("udp")
                member.answered_there_at = now
            self._belief.handle_evidence(
                member, sender.incarnation, now, is_proven=True, is_answer=not probe.is_detoured
            )
        elif not probe.host_id:
            self.streams.open(source, now)

    def _handle_relayed_ack(self, ack: RelayedAck, now: float) -> None:
        if not self._probing.handle_indirect_ack(ack.seq, ack.subject):
            return
        member = self._context.table.get(ack.subject)
        if member is not None and member.epoch == ack.epoch:
            # No word on where it was asked: a relay, too, asks where the member calls from.
            self._belief.handle_evidence(member, ack.incarnation, now, is_proven=True)

    def _handle_namesake(self, datagram: Datagram, source: Address, now: float) -> None:
        """Another daemon speaks in this host's name: say so; its words change nothing."""
        epoch = datagram.sender.epoch
        self._context.counters["drops/namesake"] += 1
        self._defence.report_conflict(source, f"another daemon runs at {source} as epoch {epoch}", now)
