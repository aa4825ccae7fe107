"""The fan-out of events: a bounded ring to replay from, and a bounded queue for each subscriber.

A subscriber that does not keep up is cut off and told, never waited for: the daemon's pace does not depend
on who listens. The ids name the daemon's run, so a client that comes back after a restart misses nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpumesh.errors import RejectedError
from gpumesh.model import Event

RING_EVENTS: Final = 1024
MAX_SUBSCRIBERS: Final = 64
BACKLOG_EVENTS: Final = 256


@dataclass(frozen=True, slots=True)
class NumberedEvent:
    """An event with its place in this daemon run's order."""

    run: int
    """The daemon's epoch."""
    number: int
    """Counts up from 1 within the run."""
    event: Event

    @property
    def id(self) -> str:
        """The id as clients see and return it, ``run-number``."""
        return f"{self.run}-{self.number}"


@dataclass(frozen=True, slots=True)
class Replay:
    """What a returning client is owed."""

    events: tuple[NumberedEvent, ...]
    has_gap: bool
    """Events after the client's last one are no longer kept."""


class Subscription:
    """One subscriber's place in the feed; :meth:`EventFeed.subscribe` makes it."""

    def __init__(self, feed: EventFeed, owed: Sequence[NumberedEvent]) -> None:
        self._feed = feed
        self._owed = deque(owed)
        self._queue: asyncio.Queue[NumberedEvent | None] = asyncio.Queue(BACKLOG_EVENTS)
        self.is_overrun = False
        """The subscriber fell more than its backlog behind and was cut off."""
        self.is_ended = False

    async def next_event(self, timeout_s: float) -> NumberedEvent | None:
        """Return the next event; None after ``timeout_s`` without one, or when the feed ended."""
        if self._owed:
            return self._owed.popleft()
        if self.is_ended and self._queue.empty():
            return None
        try:
            return await asyncio.wait_for(self._queue.get(), timeout_s)
        except asyncio.TimeoutError:
            return None

    def close(self) -> None:
        """Give the place up; may be called twice."""
        self._feed.discard(self)

    def offer(self, event: NumberedEvent) -> None:
        """Queue an event, or cut the subscriber off when its backlog is full."""
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            self.is_overrun = True
            self.end()

    def end(self) -> None:
        """Drop what waits and wake the subscriber for good."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self.is_ended = True
        self._queue.put_nowait(None)


class EventFeed:
    """All events of this daemon run, newest ``capacity`` kept; one for the daemon, used on its event loop."""

    def __init__(self, run: int, capacity: int = RING_EVENTS) -> None:
        self._run = run
        self._ring: deque[NumberedEvent] = deque(maxlen=capacity)
        self._subscriptions: set[Subscription] = set()
        self._num_published = 0
        self.num_overrun = 0
        """Subscribers cut off because they did not keep up."""

    @property
    def num_subscribers(self) -> int:
        """How many follow now."""
        return len(self._subscriptions)

    @property
    def sizes(self) -> dict[str, int]:
        """How many events are kept and how many clients follow them, and how many there may be."""
        return {
            "size_events_kept": len(self._ring),
            "limit_events_kept": self._ring.maxlen or 0,
            "size_event_clients": len(self._subscriptions),
            "limit_event_clients": MAX_SUBSCRIBERS,
        }

    def publish(self, event: Event) -> NumberedEvent:
        """Keep the event and hand it to each subscriber; never blocks."""
        self._num_published += 1
        numbered = NumberedEvent(self._run, self._num_published, event)
        self._ring.append(numbered)
        for subscription in tuple(self._subscriptions):
            subscription.offer(numbered)
            if subscription.is_overrun:
                self.num_overrun += 1
                self._subscriptions.discard(subscription)
        return numbered

    def recent(self) -> Sequence[NumberedEvent]:
        """Return the kept events, oldest first."""
        return tuple(self._ring)

    def replay(self, last_id: str) -> Replay:
        """Return what came after the event with ``last_id``; all that is kept if it is of another run."""
        run, _, number = last_id.partition("-")
        if run != str(self._run) or not number.isdecimal():
            return Replay(tuple(self._ring), has_gap=False)
        last = int(number)
        events = tuple(item for item in self._ring if item.number > last)
        oldest = self._ring[0].number if self._ring else self._num_published + 1
        return Replay(events, has_gap=last + 1 < oldest)

    def subscribe(self, owed: Sequence[NumberedEvent] = ()) -> Subscription:
        """Return a subscription that first yields ``owed`` and then each event published from now on.

        Errors: :class:`RejectedError` (``busy``) when there are as many subscribers as allowed.
        """
        if len(self._subscriptions) >= MAX_SUBSCRIBERS:
            raise RejectedError("busy", f"{MAX_SUBSCRIBERS} clients follow the events already")
        subscription = Subscription(self, owed)
        self._subscriptions.add(subscription)
        return subscription

    def discard(self, subscription: Subscription) -> None:
        """Forget a subscription; unknown ones are ignored."""
        self._subscriptions.discard(subscription)

    def close(self) -> None:
        """End all subscriptions, so that their responses can finish."""
        for subscription in tuple(self._subscriptions):
            subscription.end()
        self._subscriptions.clear()
