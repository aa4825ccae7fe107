"""Restarts, moves and impostors: who a host is does not depend on where it is or when it started."""

from __future__ import annotations

import pytest

from gpumesh.model import Address, Reachability
from gpumesh.swim.ports import EpochOvertaken, MemberChanged
from tests.swim.link import Host, Link, joined

ALIVE, FAILED = Reachability.ALIVE, Reachability.FAILED
ELSEWHERE = Address("10.9.9.9", 7977)


def row(host: Host, other_id: str) -> tuple[int, Address, Reachability]:
    view = {view.host_id: view for view in host.engine.members()}[other_id]
    return view.epoch, view.address, view.reachability


def peers(link: Link) -> list[Address]:
    return list(link.hosts)


def test_a_restarted_host_replaces_its_older_self_at_once() -> None:
    link = joined(4, seed=1)
    first, *_, last = link.hosts.values()
    link.kill(last)
    link.add(3, epoch=2, address=last.address, seeds=peers(link))
    took_s = link.run(3.0, until=lambda: row(first, last.host_id)[0] == 2)
    assert took_s < 1.0
    assert row(first, last.host_id) == (2, last.address, ALIVE)
    changes = [event for _, event in first.changes() if event.is_new_epoch]
    assert [(event.before, event.after) for event in changes] == [(ALIVE, ALIVE)]


def test_consul_4806_a_rebuilt_host_with_a_new_address_is_taken_at_once() -> None:
    link = joined(4, seed=2)
    *others, last = link.hosts.values()
    link.kill(last)
    link.run(30.0)
    assert link.all_see(others, [last], FAILED)
    link.add(3, epoch=2, address=ELSEWHERE, seeds=peers(link)[:1])
    link.run(2.0, until=lambda: all(row(host, last.host_id)[1] == ELSEWHERE for host in others))
    assert all(row(host, last.host_id) == (2, ELSEWHERE, ALIVE) for host in others)


def test_a_dead_epoch_never_lives_again() -> None:
    link = joined(3, seed=3)
    first, second, last = link.hosts.values()
    old = link.recorded(last, first)
    link.kill(last)
    link.add(2, epoch=2, address=ELSEWHERE, seeds=peers(link))
    link.run(3.0)
    for data in old:
        first.engine.handle_datagram(data, last.address, link.now)
    for host in (first, second):
        epochs = [event.epoch for _, event in host.changes() if event.host_id == last.host_id]
        assert epochs == sorted(epochs)
        assert row(host, last.host_id)[0] == 2


def test_scylla_5164_an_epoch_is_judged_by_order_however_large() -> None:
    link = joined(3, seed=4)
    first, _, last = link.hosts.values()
    link.kill(last)
    link.add(2, epoch=2**40, address=last.address, seeds=peers(link))
    link.run(2.0)
    assert row(first, last.host_id)[0] == 2**40


def test_a_host_that_left_comes_back_with_a_new_epoch() -> None:
    link = joined(3, seed=5)
    first, _, last = link.hosts.values()
    last.engine.leave(link.now)
    link._settle(last)
    link.run(2.0)
    link.kill(last)
    link.add(2, epoch=2, address=last.address, seeds=peers(link))
    link.run(2.0)
    assert row(first, last.host_id) == (2, last.address, ALIVE)


def test_two_daemons_with_one_identity_and_epoch_are_reported_by_both_and_by_others() -> None:
    link = joined(3, seed=6)
    first, second, last = link.hosts.values()
    twin = link.add(2, epoch=1, address=ELSEWHERE, seeds=peers(link))
    link.run(60.0)
    assert {event.host_id for event in twin.conflicts()} == {last.host_id}
    assert {event.host_id for event in last.conflicts()} == {last.host_id}
    observers = [event for host in (first, second) for event in host.conflicts()]
    assert {event.host_id for event in observers} == {last.host_id}
    assert len(observers) <= 4, "conflicts are told at most once a minute for each member"


def test_two_daemons_with_alternating_epochs_are_reported_on_both() -> None:
    link = joined(3, seed=7)
    first, _, last = link.hosts.values()
    newer = link.add(2, epoch=5, address=ELSEWHERE, seeds=peers(link))
    link.run(40.0)
    assert row(first, last.host_id)[0] == 5
    assert last.conflicts()
    assert newer.conflicts()
    incarnations = [host.engine.incarnation for host in link.hosts.values()]
    assert max(incarnations) < 20, "the two must not outbid each other without end"


def test_foca_31_a_new_host_at_an_old_address_ends_the_old_identity() -> None:
    link = joined(4, seed=8)
    *others, last = link.hosts.values()
    link.kill(last)
    rebuilt = link.add(77, address=last.address, seeds=peers(link)[:1])
    took_s = link.run(20.0, until=lambda: link.all_see(others, [last], FAILED))
    assert took_s < 3.0, "its address answers as somebody else: no suspicion is needed"
    assert link.all_see(others, [rebuilt], ALIVE)
    reasons = {event.reason for host in others for _, event in host.changes() if event.after is FAILED}
    assert any("now answers as" in reason for reason in reasons)


def test_every_change_carries_words_for_people() -> None:
    link = joined(3, seed=9)
    first, _, last = link.hosts.values()
    link.kill(last)
    link.run(20.0)
    changes: list[MemberChanged] = [event for _, event in first.changes()]
    assert all(event.reason for event in changes)


def overtakes(host: Host) -> list[EpochOvertaken]:
    return [event for _, event in host.events if isinstance(event, EpochOvertaken)]


@pytest.mark.parametrize("away_s", [0.0, 60.0])
@pytest.mark.parametrize("has_left", [False, True])
def test_a_host_that_lost_its_state_goes_on_above_what_the_fleet_remembers(
    away_s: float, has_left: bool
) -> None:
    link = joined(3, seed=10)
    first, second, _ = link.hosts.values()
    old = link.add(3, epoch=7, seeds=peers(link))
    link.run(10.0, until=link.is_whole)
    if has_left:
        old.engine.leave(link.now)
        link._settle(old)
        link.run(1.0)
    link.kill(old)
    link.run(away_s)
    reborn = link.add(3, epoch=1, address=old.address, seeds=peers(link))
    took_s = link.run(20.0, until=lambda: row(first, old.host_id) == (8, old.address, ALIVE))
    assert took_s < 2.0
    link.run(5.0)
    assert link.is_whole()
    assert all(row(host, old.host_id)[0] == 8 for host in (first, second, reborn))
    assert [(event.remembered, event.epoch) for event in overtakes(reborn)] == [(7, 8)]
    assert not any(host.conflicts() for host in link.hosts.values())


def test_a_host_that_lost_its_state_and_moved_is_taken_once_its_old_self_is_failed() -> None:
    link = joined(3, seed=11)
    first, *_ = link.hosts.values()
    old = link.add(3, epoch=7, seeds=peers(link))
    link.run(10.0, until=link.is_whole)
    link.kill(old)
    link.add(3, epoch=1, address=ELSEWHERE, seeds=peers(link)[:1])
    link.run(60.0, until=lambda: row(first, old.host_id) == (8, ELSEWHERE, ALIVE))
    assert row(first, old.host_id) == (8, ELSEWHERE, ALIVE)
    link.run(5.0)
    assert link.is_whole()


def test_a_living_later_run_elsewhere_is_not_outbid() -> None:
    link = joined(3, seed=12)
    *_, last = link.hosts.values()
    newer = link.add(2, epoch=5, address=ELSEWHERE, seeds=peers(link))
    link.run(60.0)
    assert not overtakes(last)
    assert not overtakes(newer)
    assert last.conflicts()


def move(link: Link, host: Host, address: Address) -> None:
    """Let the host be reached and send from another address from now on."""
    del link.hosts[host.address]
    host.address = address
    link.hosts[address] = host
    host.engine.set_address(address, link.now)
    link._settle(host)


@pytest.mark.parametrize("seed", range(8))
def test_a_host_whose_address_changes_stays_the_same_run_and_is_reached_there(seed: int) -> None:
    link = joined(6, seed=seed)
    link.loss = 0.2
    *others, last = link.hosts.values()
    move(link, last, ELSEWHERE)
    took_s = link.run(60.0, until=lambda: all(row(host, last.host_id)[1] == ELSEWHERE for host in others))
    assert took_s < 15.0
    link.loss = 0.0
    link.run(30.0)
    assert link.is_whole()
    assert all(row(host, last.host_id) == (1, ELSEWHERE, ALIVE) for host in others)
    assert last.engine.incarnation < 12


def test_a_host_that_moves_back_is_followed_back() -> None:
    link = joined(5, seed=13)
    *others, last = link.hosts.values()
    home = last.address
    for address in (ELSEWHERE, home, ELSEWHERE, home):
        move(link, last, address)
        link.run(20.0, until=lambda: all(row(host, last.host_id)[1] == last.address for host in others))
        link.run(3.0)
    assert all(row(host, last.host_id) == (1, home, ALIVE) for host in others)
    assert not any(host.conflicts() for host in link.hosts.values())


def test_a_host_that_was_alone_on_loopback_is_reached_once_it_has_an_address() -> None:
    link = joined(3, seed=14)
    first, *_ = link.hosts.values()
    late = link.add(9, address=Address("127.0.0.1", 7977), seeds=[])
    link.run(5.0)
    late.seeds = peers(link)[:1]
    move(link, late, ELSEWHERE)
    link.run(30.0, until=lambda: late.host_id in {view.host_id for view in first.engine.members()})
    link.run(5.0)
    assert row(first, late.host_id)[1:] == (ELSEWHERE, ALIVE)


def test_an_address_that_leads_back_here_is_no_double() -> None:
    link = joined(2, seed=15)
    first, _ = link.hosts.values()
    loopback = Address("127.0.0.1", 7977)
    link.hosts[loopback] = first
    link.add(9, address=Address("10.1.1.1", 7977), seeds=[])
    first.engine.seed([loopback], link.now)
    link._settle(first)
    link.run(20.0)
    assert first.engine.counters["drops/own_stream"] >= 1
    assert first.conflicts() == []
