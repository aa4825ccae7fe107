from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from gpumesh.records.bounds import MAX_QUEUED
from gpumesh.records.gossip import GossipQueue, Key, num_transmissions


@pytest.mark.parametrize("num_members", [1, 2, 9, 10, 11, 99, 100, 999, 1000, 12345])
def test_transmissions_follow_the_formula(num_members: int) -> None:
    assert num_transmissions(num_members) == 4 * math.ceil(math.log10(num_members + 1))


def test_each_update_is_sent_that_often_and_then_dropped() -> None:
    queue = GossipQueue()
    queue.put(("a", "host"), b"u" * 50)
    sent = [queue.take(1000, num_members=20) for _ in range(20)]
    assert sum(len(updates) for updates in sent) == num_transmissions(20)
    assert len(queue) == 0


def test_what_enough_peers_in_a_row_hold_just_so_is_told_no_more() -> None:
    queue = GossipQueue()
    queue.put(("a", "host"), b"u" * 50)
    wanted = num_transmissions(20)
    for is_alike in (*[True] * (wanted - 1), False, *[True] * (wanted - 1)):
        queue.handle_digest(is_alike=is_alike, num_members=20)
    assert len(queue) == 1, "not yet: one of them held something else"
    queue.put(("b", "host"), b"u" * 50)
    queue.handle_digest(is_alike=True, num_members=20)
    assert len(queue) == 2, "what they held before this came tells nothing of it"
    for _ in range(wanted):
        queue.handle_digest(is_alike=True, num_members=20)
    assert len(queue) == 0
    assert queue.take(1000, num_members=20) == []
    queue.put(("a", "host"), b"v" * 50)
    assert queue.take(1000, num_members=20) == [b"v" * 50]


def test_newest_goes_first_and_least_sent_before_it() -> None:
    queue = GossipQueue()
    queue.put(("a", "host"), b"old" * 20)
    queue.put(("b", "host"), b"new" * 20)
    assert queue.take(70, num_members=5) == [b"new" * 20]
    assert queue.take(70, num_members=5) == [b"old" * 20]


def test_newer_version_silences_the_older() -> None:
    queue = GossipQueue()
    queue.put(("a", "host"), b"1" * 60)
    queue.take(1000, num_members=5)
    queue.put(("a", "host"), b"2" * 60)
    assert queue.take(1000, num_members=5) == [b"2" * 60]
    assert len(queue) == 1


def test_together_they_fit_the_limit_with_framing() -> None:
    queue = GossipQueue()
    for number in range(30):
        queue.put((str(number), "host"), bytes(97))
    for limit in (0, 99, 100, 450, 1000):
        updates = queue.take(limit, num_members=100)
        assert sum(len(update) + 3 for update in updates) <= limit
    assert len(queue.take(1000, num_members=100)) == 10


def test_what_never_fits_does_not_block_the_rest_and_ages_out() -> None:
    queue = GossipQueue()
    queue.put(("small", "host"), b"s" * 40)
    queue.put(("big", "host"), b"b" * 900)
    assert queue.take(200, num_members=2) == [b"s" * 40]
    for _ in range(200):
        queue.take(200, num_members=2)
    assert len(queue) == 0
    assert queue.num_shed == 1


def test_search_for_what_still_fits_ends_however_many_are_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = GossipQueue()
    for number in range(MAX_QUEUED):
        queue.put((str(number), "host"), bytes(97))
    looked_at = []
    in_turn = GossipQueue._in_turn

    def counted(self: GossipQueue) -> Iterator[tuple[int, Key, bytes]]:
        for item in in_turn(self):
            looked_at.append(item)
            yield item

    monkeypatch.setattr(GossipQueue, "_in_turn", counted)
    assert len(queue.take(150, num_members=1000)) == 1
    assert len(looked_at) <= 40


def test_queue_is_bounded_when_something_is_put_in() -> None:
    queue = GossipQueue()
    for number in range(MAX_QUEUED + 10):
        queue.put((str(number), "host"), b"u")
    assert len(queue) == MAX_QUEUED
    assert queue.num_shed == 10
