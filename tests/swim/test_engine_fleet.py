"""Several engines on one link: forming, failing, leaving, losing packets, parting and meeting again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpumesh.model import Address, Reachability
from gpumesh.swim.parameters import LAN, suspicion_bounds
from tests.swim.link import Host, Link, joined

ALIVE, SUSPECT, FAILED, LEFT = (
    Reachability.ALIVE,
    Reachability.SUSPECT,
    Reachability.FAILED,
    Reachability.LEFT,
)


def failures(link: Link) -> list[str]:
    """Every verdict of failure, in words."""
    return [
        f"{at - 1000:.1f} s: {host.name} failed {event.host_id[:4]} ({event.reason})"
        for host in link.hosts.values()
        for at, event in host.changes()
        if event.after is FAILED
    ]


@pytest.mark.parametrize("count", [2, 3, 8, 20])
def test_hosts_with_one_seed_find_each_other_within_two_seconds(count: int) -> None:
    link = Link(seed=count)
    for number in range(count):
        link.add(number)
    assert link.run(2.0, until=link.is_whole) < 2.0


def test_hosts_join_by_datagrams_alone_when_streams_are_blocked() -> None:
    link = Link(seed=1)
    link.streams_work = False
    for number in range(5):
        link.add(number)
    link.run(20.0, until=link.is_whole)
    assert link.is_whole()


def test_hosts_join_and_stay_alive_by_streams_alone_and_say_so() -> None:
    link = Link(seed=1)
    link.datagrams_work = False
    hosts = [link.add(number) for number in range(4)]
    link.run(60.0)
    assert link.is_whole()
    assert failures(link) == []
    rows = [row for row in hosts[0].engine.members() if row.host_id != hosts[0].host_id]
    assert {row.transport for row in rows} == {"stream"}


def test_a_seed_that_comes_up_late_is_found() -> None:
    link = Link(seed=2)
    late = Address("10.0.0.200", 7977)
    hosts = [link.add(number, seeds=[late]) for number in range(3)]
    link.run(120.0)
    assert hosts[0].sees(hosts[1]) is None
    link.add(9, address=late, seeds=[])
    link.run(45.0, until=link.is_whole)
    assert link.is_whole()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [3, 5, 8])
def test_a_crash_is_known_to_all_within_the_bound(count: int, seed: int) -> None:
    link = joined(count, seed)
    link.run(5.0 + seed * 0.37)
    victim, *others = reversed(link.hosts.values())
    link.kill(victim)
    shortest_s, _ = suspicion_bounds(link.parameters, count)
    # One whole pass of the probe order, the probe itself, the shortest suspicion, and two seconds to spread.
    bound_s = (count + 1) * link.parameters.probe_interval_s + shortest_s + 2.0
    took_s = link.run(60.0, until=lambda: link.all_see(others, [victim], FAILED))
    assert took_s < bound_s, f"seed {seed}"
    assert all(
        event.host_id == victim.host_id
        for host in others
        for _, event in host.changes()
        if event.after is FAILED
    )


def test_the_survivor_of_two_fails_the_other_after_the_longest_suspicion() -> None:
    link = joined(2)
    first, second = link.hosts.values()
    link.run(10.0)
    link.kill(second)
    _, longest_s = suspicion_bounds(link.parameters, 2)
    took_s = link.run(60.0, until=lambda: first.sees(second) is FAILED)
    assert longest_s <= took_s < longest_s + 8.0


@pytest.mark.parametrize("loss", [0.0, 0.3])
@pytest.mark.parametrize("count", [2, 3, 30])
def test_a_goodbye_is_known_to_all_within_three_seconds_and_never_as_failure(count: int, loss: float) -> None:
    link = joined(count, seed=count)
    link.loss = loss
    leaver, *others = reversed(link.hosts.values())
    leaver.engine.leave(link.now)
    link._settle(leaver)
    assert link.run(3.0, until=lambda: link.all_see(others, [leaver], LEFT)) < 3.0
    link.run(1.0)
    link.kill(leaver)
    link.run(60.0)
    assert link.all_see(others, [leaver], LEFT)
    assert failures(link) == []


def test_consul_13379_a_goodbye_that_nobody_hears_ends_by_itself_for_both_sides() -> None:
    parameters = replace(LAN, left_retention_s=200.0, failed_retention_s=200.0)
    link = joined(3, seed=1, parameters=parameters)
    leaver, *others = reversed(link.hosts.values())
    link.is_cut = lambda source, target: leaver.address in (source, target)
    leaver.engine.leave(link.now)
    link._settle(leaver)
    link.run(1.0)
    deadline = leaver.engine.next_deadline()
    assert leaver.engine.members()[0].reachability is LEFT
    assert deadline is None or deadline > link.now + 1.0, "nothing of the goodbye is left to do"
    link.run(60.0)
    link.kill(leaver)
    assert link.all_see(others, [leaver], FAILED), "unheard, it is as good as gone"
    link.run(400.0)
    assert [host.sees(leaver) for host in others] == [None, None]


def test_who_has_left_sees_itself_left_and_answers_without_returning() -> None:
    link = joined(3)
    leaver, *others = reversed(link.hosts.values())
    leaver.engine.leave(link.now)
    leaver.engine.leave(link.now)
    link._settle(leaver)
    link.run(120.0)
    assert leaver.engine.members()[0].reachability is LEFT
    assert link.all_see(others, [leaver], LEFT)
    assert not leaver.engine.wants_seeds(link.now)
    before = leaver.engine.counters["sent/gossip"], leaver.engine.counters["sent/ping"]
    link.run(60.0)
    assert (leaver.engine.counters["sent/gossip"], leaver.engine.counters["sent/ping"]) == before


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", range(3, 9))
def test_thirty_percent_loss_for_two_minutes_fails_no_healthy_host(count: int, seed: int) -> None:
    link = joined(count, seed)
    link.loss = 0.3
    link.streams_work = False
    link.run(120.0)
    assert failures(link) == [], f"seed {seed}"


def test_a_crash_is_found_under_thirty_percent_loss() -> None:
    link = joined(6, seed=3)
    link.loss = 0.3
    victim, *others = reversed(link.hosts.values())
    link.kill(victim)
    link.run(40.0, until=lambda: link.all_see(others, [victim], FAILED))
    assert link.all_see(others, [victim], FAILED)


@pytest.mark.parametrize(
    ("left_count", "right_count", "apart_s"),
    [
        *[
            (left, right, apart_s)
            for left, right in [(1, 1), (1, 4), (3, 3)]
            for apart_s in (1.0, 10.0, 120.0)
        ],
        (1, 4, 1800.0),
        (1, 1, 24 * 3600.0),
    ],
)
def test_metallb_589_two_halves_merge_within_ten_seconds_of_the_heal(
    left_count: int, right_count: int, apart_s: float
) -> None:
    count = left_count + right_count
    link = joined(count, seed=count)
    hosts = list(link.hosts.values())
    left = {host.address for host in hosts[:left_count]}
    link.is_cut = lambda source, target: (source in left) != (target in left)
    link.run(apart_s)
    if apart_s > 60 and left_count > 1:
        assert link.all_see(hosts[:left_count], hosts[left_count:], FAILED)
    link.is_cut = lambda _source, _target: False
    assert link.run(10.0, until=link.is_whole) < 10.0
    link.run(60.0)
    assert link.is_whole()


def test_halves_of_a_larger_fleet_merge_within_ten_seconds() -> None:
    link = joined(24, seed=1)
    hosts = list(link.hosts.values())
    left = {host.address for host in hosts[:10]}
    link.is_cut = lambda source, target: (source in left) != (target in left)
    link.run(90.0)
    assert link.all_see(hosts[:10], hosts[10:], FAILED)
    assert link.all_see(hosts[10:], hosts[:10], FAILED)
    link.is_cut = lambda _source, _target: False
    assert link.run(10.0, until=link.is_whole) < 10.0


@pytest.mark.parametrize("num_lost", [1, 2])
def test_memberlist_222_hosts_cut_off_for_minutes_come_back_by_themselves(num_lost: int) -> None:
    """One alone fails nobody and goes on asking; of two, each side must try those that it holds failed."""
    link = joined(5, seed=4)
    lost = list(link.hosts)[:num_lost]
    for host in link.hosts.values():
        host.seeds.clear()
    link.is_cut = lambda source, target: (source in lost) != (target in lost)
    link.run(600.0)
    link.is_cut = lambda _source, _target: False
    assert link.run(10.0, until=link.is_whole) < 10.0


def test_memberlist_311_mass_restart_leaves_no_live_host_failed() -> None:
    link = joined(12, seed=5)
    old = list(link.hosts.values())
    for host in old:
        link.kill(host)
    link.run(30.0)
    peers = [host.address for host in old]
    for number, host in enumerate(old):
        link.add(number, epoch=2, address=host.address, seeds=peers)
    link.run(15.0, until=link.is_whole)
    assert link.is_whole()


def test_one_way_loss_is_masked_by_relays() -> None:
    link = joined(5, seed=6)
    deaf, mute, *_ = link.hosts.values()
    link.streams_work = False
    link.is_cut = lambda source, target: (source, target) == (mute.address, deaf.address)
    link.run(120.0)
    assert failures(link) == []


def test_quiet_fleet_keeps_its_queues_empty_and_agrees() -> None:
    link = joined(10, seed=7)
    link.run(120.0)
    for host in link.hosts.values():
        sizes = host.engine.queue_sizes
        assert sizes["broadcasts"] == sizes["doubts"] == sizes["errands"] == sizes["outbox"] == 0
        assert host.engine.awareness == 0
        assert [event for event in host.changes() if event[1].after is not ALIVE] == []


def test_passenger_rides_on_pings_gossip_and_syncs() -> None:
    link = joined(3, seed=8)
    first, second, third = link.hosts.values()
    first.passenger.digest = b"digest"
    first.passenger.outgoing = [b"one", b"two"]
    first.passenger.pages = [b"page"]
    first.engine.gossip_soon(link.now)
    link._settle(first)
    second.passenger.wanted = first.host_id
    link.run(5.0)
    others: list[Host] = [second, third]
    assert {update for host in others for update in host.passenger.updates} == {b"one", b"two"}
    assert (first.host_id, b"digest") in second.passenger.digests
    assert b"page" in second.passenger.taken_pages


def test_beat_is_heard_by_peers() -> None:
    link = joined(2)
    first, second = link.hosts.values()
    first.engine.beat(link.now)
    first.engine.beat(link.now)
    link.run(3.0)
    assert {row.host_id: row.beat for row in second.engine.members()}[first.host_id] == 2
