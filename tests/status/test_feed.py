from __future__ import annotations

import asyncio

import pytest

from gpumesh.errors import RejectedError
from gpumesh.model import Event
from gpumesh.status.feed import BACKLOG_EVENTS, MAX_SUBSCRIBERS, EventFeed


def event(number: int) -> Event:
    return Event("host.state", 1000.0 + number, "id", "pc01", "host", f"event {number}")


async def test_subscribers_get_events_in_order() -> None:
    feed = EventFeed(run=3)
    first, second = feed.subscribe(), feed.subscribe()
    feed.publish(event(1))
    feed.publish(event(2))
    for subscription in (first, second):
        got = [await subscription.next_event(5) for _ in range(2)]
        assert [item.id for item in got if item] == ["3-1", "3-2"]


async def test_no_event_within_the_time_is_none_and_not_the_end() -> None:
    subscription = EventFeed(run=1).subscribe()
    assert await subscription.next_event(0.01) is None
    assert not subscription.is_ended


async def test_a_subscriber_that_does_not_read_is_cut_off_and_the_others_are_not() -> None:
    feed = EventFeed(run=1)
    slow, quick = feed.subscribe(), feed.subscribe()
    for number in range(BACKLOG_EVENTS + 1):
        feed.publish(event(number))
        assert await quick.next_event(5) is not None
    assert slow.is_overrun
    assert feed.num_overrun == 1
    assert await slow.next_event(5) is None
    assert not quick.is_overrun


async def test_the_ring_keeps_the_newest_and_says_that_older_ones_are_gone() -> None:
    feed = EventFeed(run=1, capacity=3)
    for number in range(5):
        feed.publish(event(number))
    assert [item.number for item in feed.recent()] == [3, 4, 5]
    assert feed.replay("1-3").events == feed.recent()[1:]
    assert not feed.replay("1-2").has_gap
    assert feed.replay("1-1").has_gap


@pytest.mark.parametrize("last_id", ["6-2", "nonsense", "1-", "1-x", "-", "1-²"])
async def test_an_id_of_another_run_is_owed_everything(last_id: str) -> None:
    feed = EventFeed(run=1)
    feed.publish(event(1))
    assert feed.replay(last_id).events == feed.recent()


async def test_owed_events_come_before_new_ones() -> None:
    feed = EventFeed(run=1)
    feed.publish(event(1))
    subscription = feed.subscribe(feed.recent())
    feed.publish(event(2))
    got = [await subscription.next_event(5) for _ in range(2)]
    assert [item.number for item in got if item] == [1, 2]


async def test_too_many_subscribers_are_refused_until_one_leaves() -> None:
    feed = EventFeed(run=1)
    places = [feed.subscribe() for _ in range(MAX_SUBSCRIBERS)]
    with pytest.raises(RejectedError, match="busy"):
        feed.subscribe()
    places[0].close()
    places[0].close()
    feed.subscribe()


async def test_closing_the_feed_wakes_who_waits() -> None:
    feed = EventFeed(run=1)
    subscription = feed.subscribe()
    waiting = asyncio.ensure_future(subscription.next_event(60))
    await asyncio.sleep(0)
    feed.close()
    assert await asyncio.wait_for(waiting, 5) is None
    assert subscription.is_ended


async def test_what_the_feed_holds_is_told_with_its_limits() -> None:
    feed = EventFeed(run=1, capacity=3)
    for number in range(9):
        feed.publish(event(number))
    for _ in range(MAX_SUBSCRIBERS):
        feed.subscribe()
    with pytest.raises(RejectedError, match="busy"):
        feed.subscribe()
    assert feed.sizes == {
        "size_events_kept": 3,
        "limit_events_kept": 3,
        "size_event_clients": MAX_SUBSCRIBERS,
        "limit_event_clients": MAX_SUBSCRIBERS,
    }
