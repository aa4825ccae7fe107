"""A host behind a router that rewrites ports and lets nothing new in is reached where it calls from."""

from __future__ import annotations

import functools
import heapq
from collections import Counter
from collections.abc import Callable

import pytest

from gpumesh.model import Address, Reachability
from gpumesh.swim.ports import OpenStream
from tests.swim.link import Host, Link

ALIVE, FAILED = Reachability.ALIVE, Reachability.FAILED
ROUTER = "198.51.100.7"
VICTIM = Address("203.0.113.66", 4444)
"""Who has nothing to do with the fleet."""


class ClosedRouter(Link):
    """A link on which one host is reached by answers to it alone, and from whom it spoke to."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.hidden = Address("10.9.0.1", 7977)
        self._num_mapped = 0
        self._public: dict[Address, Address] = {}
        """By peer: where the hidden host's datagrams to it seem to come from."""
        self.num_sent_to: Counter[Address] = Counter()
        self.slow_way_in_s: float | None = None
        """Once there is one beside the other: how much longer it takes."""

    def forget(self) -> None:
        self._public.clear()

    def _deliver(self, data: bytes, source: Address, target: Address) -> None:
        self.num_sent_to[target] += 1
        if source == self.hidden:
            if target not in self._public:
                self._num_mapped += 1
                self._public[target] = Address(ROUTER, 20_000 + self._num_mapped)
            super()._deliver(data, self._public[target], target)
        elif target.host == ROUTER:
            if self._public.get(source) == target:
                super()._deliver(data, source, self.hidden)
        elif target != self.hidden:
            super()._deliver(data, source, target)
        elif self.slow_way_in_s is not None:
            at = self.now + self.slow_way_in_s
            arrive: Callable[[], None] = functools.partial(super()._deliver, data, source, target)
            heapq.heappush(self._queue, (at, next(self._num), arrive))

    def _connect(self, host: Host, action: OpenStream) -> None:
        if action.address == self.hidden:
            host.engine.handle_stream_closed(action.stream_id, self.now)
            self._settle(host)
        else:
            super()._connect(host, action)


def closed_fleet(count: int, seed: int) -> tuple[ClosedRouter, list[Host], Host]:
    link = ClosedRouter(seed)
    others = [link.add(number) for number in range(count - 1)]
    hidden = link.add(count, address=link.hidden)
    link.run(60.0, until=link.is_whole)
    assert link.is_whole()
    return link, others, hidden


def transport(observer: Host, subject: Host) -> str:
    return {row.host_id: row.transport for row in observer.engine.members()}[subject.host_id]


def beliefs(host: Host, subject: Host, since_at: float) -> list[Reachability]:
    return [
        change.after
        for at, change in host.changes()
        if at >= since_at and change.host_id == subject.host_id and change.after is not change.before
    ]


@pytest.mark.parametrize("count", [2, 4, 12])
def test_a_host_that_nothing_new_reaches_is_not_accused_and_shown_as_reached_by_answers(count: int) -> None:
    link, others, hidden = closed_fleet(count, seed=21)
    link.run(30.0)
    settled_at = link.now
    link.run(180.0)
    assert {transport(host, hidden) for host in others} == {"return"}
    assert {transport(hidden, host) for host in others} == {"udp"}
    assert [beliefs(host, hidden, settled_at) for host in others] == [[]] * len(others)


def test_a_router_that_forgets_costs_the_host_behind_it_no_place() -> None:
    link, others, hidden = closed_fleet(4, seed=22)
    for _ in range(10):
        link.run(15.0)
        link.forget()
    link.run(30.0)
    assert link.is_whole()
    assert FAILED not in {after for host in others for after in beliefs(host, hidden, 0.0)}


def test_the_death_of_a_host_behind_a_router_is_seen_and_its_return_too() -> None:
    link, others, hidden = closed_fleet(5, seed=23)
    link.run(30.0)
    link.kill(hidden)
    died_at = link.now
    link.run(60.0, until=lambda: link.all_see(others, [hidden], FAILED))
    assert link.all_see(others, [hidden], FAILED)
    assert link.now - died_at < 12.0
    hidden.is_up = True
    link.resume(hidden)
    link.run(60.0, until=link.is_whole)
    assert link.is_whole()


def test_once_the_way_in_is_open_the_host_is_reached_by_its_own_address_again() -> None:
    link, others, hidden = closed_fleet(4, seed=24)
    link.run(30.0)
    assert {transport(host, hidden) for host in others} == {"return"}
    link.hidden = Address("10.9.0.99", 7977)  # nobody: what came to the router before comes to the host
    link.run(30.0)
    assert {transport(host, hidden) for host in others} == {"udp"}


def test_an_address_that_answers_again_is_the_way_although_a_shorter_one_answers_first() -> None:
    link, others, hidden = closed_fleet(4, seed=25)
    link.run(30.0)
    assert {transport(host, hidden) for host in others} == {"return"}
    link.slow_way_in_s = 0.02
    link.run(60.0)
    assert {transport(host, hidden) for host in others} == {"udp"}
    opened_at = link.now
    link.run(60.0)
    assert {transport(host, hidden) for host in others} == {"udp"}
    assert [beliefs(host, hidden, opened_at) for host in others] == [[]] * len(others)


def test_a_recording_of_such_a_host_sent_from_elsewhere_brings_no_news_there() -> None:
    link, others, hidden = closed_fleet(4, seed=26)
    link.run(30.0)
    recording = link.recorded(hidden, others[0])[-1]
    link.run(5.0)
    others[1].engine.handle_datagram(recording, VICTIM, link.now)
    link.run(60.0)
    assert link.num_sent_to[VICTIM] <= 1  # the answer
    assert link.is_whole()


def test_the_last_words_of_a_dead_host_sent_from_elsewhere_bring_nothing_there_once_it_is_failed() -> None:
    link, others, hidden = closed_fleet(4, seed=26)
    link.run(30.0)
    recording = link.recorded(hidden, others[0])[-1]
    link.kill(hidden)
    others[1].engine.handle_datagram(recording, VICTIM, link.now)
    link.run(30.0, until=lambda: link.all_see(others, [hidden], FAILED))
    num_sent = link.num_sent_to[VICTIM]
    link.run(1800.0)
    assert link.num_sent_to[VICTIM] == num_sent
    assert num_sent < 30, num_sent


def test_a_router_that_refuses_at_the_hosts_address_does_not_set_all_asking() -> None:
    link, others, hidden = closed_fleet(6, seed=27)
    link.run(30.0)
    for host in others:
        host.engine.handle_unreachable(hidden.address, link.now)
        assert not host.engine.datagrams_to_send()
    link.run(30.0)
    assert {transport(host, hidden) for host in others} == {"return"}
