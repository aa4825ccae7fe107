"""Streams and what runs over them: push/pull, joining, and the ping that takes the other way.

A push/pull is two turns each. The opener says who it is and the outline of what it holds; an acceptor of the
same mind says only that. Else it answers with its own outline, its rows of the buckets that differ and the
passenger's summary of those; the opener with its rows of them, the pages that the acceptor lacks and its own
summary; the acceptor closes with the pages that the opener lacks. Repairing what gossip missed, joining and
merging two halves of a partition are all this one conversation. A stream ping is its introductions alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

from gpumesh.errors import RejectedError, TransitionError
from gpumesh.model import Address
from gpumesh.swim.context import Context
from gpumesh.swim.frames import (
    MAX_AGE_S,
    MAX_SUMMARY_BYTES,
    End,
    Frame,
    Hello,
    Outline,
    Page,
    Purpose,
    Row,
    Rows,
    Summary,
    chunks,
    decode,
    encode,
    pages,
)
from gpumesh.swim.outline import bucket, differing, num_buckets, outline
from gpumesh.swim.parameters import MAX_FRAME_BYTES, sync_interval
from gpumesh.swim.ports import CloseStream, OpenStream, SendStream, StreamAction
from gpumesh.swim.stream import CHALLENGE_BYTES, Channel

SYNC: Final = ("sync", None)
TOTAL_FACTOR: Final = 6
"""A stream may take this many times the timeout in all, however steadily it trickles."""
SOURCE_SHARE: Final = 4
"""One address may hold this share of the streams before it has proved that it has the key."""
PING_SHARE: Final = 4
"""At most a quarter of the streams are pings, so that a mass failure leaves room for syncs."""
SYNC_FAILED_CHANCE: Final = 0.2
"""Share of the periodic push/pulls that try a failed member, for networks where only streams get through."""


class Conversation:
    """One stream and how far its talk has come."""

    def __init__(
        self, stream_id: int, address: Address, channel: Channel, now: float, *, is_opener: bool
    ) -> None:
        self.stream_id = stream_id
        self.address = address
        self.channel = channel
        self.is_opener = is_opener
        self.purpose = Purpose.SYNC
        self.wanted = ""
        """Whom the opener means to reach; empty for a seed."""
        self.probe_seq: int | None = None
        self.opened_at = now
        self.peer: str | None = None
        self.num_ends = 0
        self.is_joining = False
        self.is_connected = False
        self.outline: Outline | None = None
        """The peer's, in its latest turn."""
        self.summary = bytearray()


class Streams:
    """All streams of the engine: bounded in number, bytes and time.

    ``on_hello`` introduces the other end to the engine and returns False to hang up; ``on_row`` takes one
    row of its table; ``on_ping_answered`` takes the answer to a stream ping, ``on_ping_refused`` that no
    stream for one could be opened.
    """

    def __init__(
        self,
        context: Context,
        on_hello: Callable[[Hello, float], bool],
        on_row: Callable[[Row, float, bool], None],
        on_ping_answered: Callable[[int, Hello], None],
        on_ping_refused: Callable[[int, float], None],
    ) -> None:
        self._context = context
        self._on_hello = on_hello
        self._on_row = on_row
        self._on_ping_answered = on_ping_answered
        self._on_ping_refused = on_ping_refused
        self._talks: dict[int, Conversation] = {}
        self._num = 0
        self.actions: deque[StreamAction] = deque()
        context.agenda.set(SYNC, context.now + self._interval() * context.random.random())

    def __len__(self) -> int:
        return len(self._talks)

    def open(self, address: Address, now: float, *, wanted: str = "", probe_seq: int | None = None) -> bool:
        """Open a push/pull, or a stream ping if ``probe_seq`` is given; return False if it was refused."""
        is_ping = probe_seq is not None
        alike = [
            talk
            for talk in self._talks.values()
            if talk.is_opener and (talk.probe_seq is not None) == is_ping
        ]
        if any(talk.address == address for talk in alike):
            return False
        if is_ping and len(alike) >= self._context.parameters.num_streams // PING_SHARE:
            self._context.counters["drops/streams"] += 1
            return False
        talk = self._begin(address, now, is_opener=True)
        if talk is None:
            return False
        talk.purpose = Purpose.PING if is_ping else Purpose.SYNC
        talk.is_joining = self._context.table.num_live == 0
        talk.wanted = wanted
        talk.probe_seq = probe_seq
        if is_ping:
            ends_at = now + 2 * self._context.parameters.probe_interval_s
            self._context.agenda.set(("stream", talk.stream_id), ends_at)
        self.actions.append(OpenStream(talk.stream_id, address))
        self._context.counters["streams/pings" if is_ping else "streams/syncs"] += 1
        return True

    def handle_accepted(self, source: Address, now: float) -> int | None:
        """Take a stream that a peer opened; return its id, None if there are too many."""
        num_unproven = sum(
            talk.peer is None and not talk.is_opener and talk.address.host == source.host
            for talk in self._talks.values()
        )
        if num_unproven >= self._context.parameters.num_streams // SOURCE_SHARE:
            # Whoever has no key must not hold all the streams there are.
            self._context.counters["drops/streams_source"] += 1
            return None
        talk = self._begin(source, now, is_opener=False)
        if talk is None:
            return None
        self.actions.append(SendStream(talk.stream_id, talk.channel.preamble()))
        return talk.stream_id

    def handle_opened(self, stream_id: int, now: float) -> None:
        """Begin to talk on a stream that this host opened."""
        talk = self._talks.get(stream_id)
        if talk is not None and talk.is_opener:
            self._touch(talk, now)
            talk.is_connected = True
            self.actions.append(SendStream(stream_id, talk.channel.preamble()))

    def handle_data(self, stream_id: int, data: bytes, now: float) -> None:
        """Take bytes in any chunking; whatever is wrong with them ends the stream and is counted."""
        talk = self._talks.get(stream_id)
        if talk is None:
            return
        was_ready = talk.channel.is_ready
        try:
            bodies = talk.channel.feed(data)
            if talk.is_opener and talk.channel.is_ready and not was_ready:
                self._say_first(talk)
            for body in bodies:
                self._touch(talk, now)
                self._handle_frame(talk, decode(body), now)
                if stream_id not in self._talks:
                    return
        except RejectedError as error:
            self._context.counters["drops/stream_" + error.reason] += 1
            self._close(talk)
        except TransitionError:
            self._context.counters["drops/stream_transition"] += 1
            self._close(talk)

    def handle_closed(self, stream_id: int, now: float) -> None:
        """Forget a stream that the other end closed, or that never opened."""
        talk = self._talks.pop(stream_id, None)
        if talk is not None:
            self._context.agenda.cancel(("stream", stream_id))
            if talk.is_opener and not talk.channel.is_proven:
                self._context.counters["streams/failed"] += 1
            if talk.probe_seq is not None and not talk.is_connected:
                self._on_ping_refused(talk.probe_seq, now)

    def handle_due(self, stream_id: int) -> None:
        """Give up a stream that made no progress."""
        talk = self._talks.get(stream_id)
        if talk is not None:
            self._context.counters["streams/timed_out"] += 1
            self._close(talk)

    def handle_sync(self, now: float) -> None:
        """Run the periodic push/pull with a random member, now and then with a failed one."""
        context = self._context
        context.agenda.set(SYNC, now + self._interval() * (0.75 + context.random.random() / 2))
        failed = context.table.draw_failed(context.random)
        drawn = context.table.draw(context.random, 1)
        if failed is not None and (not drawn or context.random.random() < SYNC_FAILED_CHANCE):
            drawn = [failed]
        for member in drawn:
            self.open(member.address, now, wanted=member.host_id)

    def start_wanted(self, now: float) -> None:
        """Open the streams that other parts of the engine and the passenger asked for."""
        context = self._context
        if context.is_leaving:
            return
        passengers = context.passenger.wants_sync_with(now)
        if passengers is not None:
            context.want_sync(passengers)
        while context.wanted_syncs:
            wanted = context.table.get(context.wanted_syncs.popitem(last=False)[0])
            if wanted is not None and wanted.is_live:
                self.open(wanted.address, now, wanted=wanted.host_id)
        while context.stream_pings:
            host_id, address, seq = context.stream_pings.popleft()
            self.open(address, now, wanted=host_id, probe_seq=seq)

    def _interval(self) -> float:
        return sync_interval(self._context.parameters.sync_interval_s, self._context.num_members)

    def _begin(self, address: Address, now: float, *, is_opener: bool) -> Conversation | None:
        context = self._context
        if len(self._talks) >= context.parameters.num_streams:
            context.counters["drops/streams"] += 1
            return None
        self._num += 1
        challenge = context.random.getrandbits(8 * CHALLENGE_BYTES).to_bytes(CHALLENGE_BYTES, "big")
        channel = Channel(context.sealer, challenge, context.parameters.stream_bytes, is_opener=is_opener)
        talk = Conversation(self._num, address, channel, now, is_opener=is_opener)
        self._talks[self._num] = talk
        self._touch(talk, now)
        return talk

    def _touch(self, talk: Conversation, now: float) -> None:
        timeout_s = self._context.parameters.stream_timeout_s
        ends_at = min(now + timeout_s, talk.opened_at + TOTAL_FACTOR * timeout_s)
        self._context.agenda.set(("stream", talk.stream_id), ends_at)

    def _handle_frame(self, talk: Conversation, frame: Frame, now: float) -> None:
        if isinstance(frame, Hello):
            self._handle_hello(talk, frame, now)
        elif talk.peer is None:
            raise RejectedError("malformed", "a stream begins with an introduction")
        elif isinstance(frame, Rows):
            for row in frame.rows:
                self._on_row(row, now, talk.is_joining)
        elif isinstance(frame, Outline):
            talk.outline = frame
        elif isinstance(frame, Summary):
            if len(talk.summary) + len(frame.chunk) > MAX_SUMMARY_BYTES:
                raise RejectedError("too_large", "summary")
            talk.summary += frame.chunk
        elif isinstance(frame, Page):
            self._context.passenger.handle_page(frame.data, now)
            self._context.has_news(now)
        else:
            self._handle_end(talk, now)

    def _handle_hello(self, talk: Conversation, hello: Hello, now: float) -> None:
        if talk.peer is not None:
            raise RejectedError("malformed", "a second introduction")
        talk.peer = hello.sender.host_id
        if not self._on_hello(hello, now):
            self._close(talk)
        elif talk.is_opener:
            if talk.probe_seq is not None:
                self._on_ping_answered(talk.probe_seq, hello)
                self._close(talk)
        else:
            talk.purpose = hello.purpose
            if hello.purpose is Purpose.PING:
                self._say(talk, self._hello(talk))

    def _handle_end(self, talk: Conversation, now: float) -> None:
        talk.num_ends += 1
        if talk.num_ends > 1:
            if not talk.is_opener:
                self._say_pages(talk)
                self._say(talk, End())
            self._close(talk)
        elif talk.is_opener:
            self._answer(talk, now)
        elif talk.outline is None:
            raise RejectedError("malformed", "a sync without an outline")
        else:
            self._say(talk, self._hello(talk))
            ours = self._outline(len(talk.outline.members))
            if ours != talk.outline:
                self._say(talk, ours)
                self._say_rows(talk, ours.members, talk.outline.members, now)
                self._say_summary(talk, talk.outline.passenger)
            self._say(talk, End())

    def _answer(self, talk: Conversation, now: float) -> None:
        """Take the opener's second turn: the acceptor is of the same mind, or has said where it differs."""
        is_waiting = False
        if talk.outline is not None:
            ours = self._outline(len(talk.outline.members))
            self._say_rows(talk, ours.members, talk.outline.members, now)
            self._say_pages(talk)
            is_waiting = self._say_summary(talk, talk.outline.passenger)
        self._say(talk, End())
        if not is_waiting:
            self._close(talk)

    def _say_first(self, talk: Conversation) -> None:
        self._say(talk, self._hello(talk))
        if talk.purpose is Purpose.SYNC:
            self._say(talk, self._outline(num_buckets(len(self._context.table) + 1)))
            self._say(talk, End())

    def _outline(self, num: int) -> Outline:
        context = self._context
        held = chain((context.own_statement(),), (row.statement(has_address=True) for row in context.table))
        return Outline(tuple(outline(held, num)), tuple(context.passenger.outline_to_send(num)))

    def _say_rows(self, talk: Conversation, ours: Sequence[int], theirs: Sequence[int], now: float) -> None:
        wanted = differing(ours, theirs)
        for page in pages(
            Row(member.statement(has_address=True), int(min(max(0.0, now - member.since_at), MAX_AGE_S)))
            for member in self._context.table
            if bucket(member.host_id, len(ours)) in wanted
        ):
            self._say(talk, page)

    def _say_summary(self, talk: Conversation, theirs: Sequence[int]) -> bool:
        summary = self._context.passenger.summary_to_send(theirs)
        for chunk in chunks(summary) if summary else ():
            self._say(talk, chunk)
        return bool(summary)

    def _say_pages(self, talk: Conversation) -> None:
        if not talk.summary:
            return
        for page in self._context.passenger.pages_to_send(bytes(talk.summary)):
            if len(page) > MAX_FRAME_BYTES:
                self._context.counters["drops/page_oversize"] += 1
                continue
            self._say(talk, Page(page))

    def _hello(self, talk: Conversation) -> Hello:
        context = self._context
        return Hello(context.sender(), context.address, talk.purpose, context.is_leaving)

    def _say(self, talk: Conversation, frame: Frame) -> None:
        self.actions.append(SendStream(talk.stream_id, talk.channel.seal(encode(frame))))

    def _close(self, talk: Conversation) -> None:
        if self._talks.pop(talk.stream_id, None) is not None:
            self._context.agenda.cancel(("stream", talk.stream_id))
            self.actions.append(CloseStream(talk.stream_id))
