"""Networks that let only part through: filters, stale tables of connections, small MTUs, reused addresses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpumesh.model import Address, Reachability
from gpumesh.swim.parameters import LAN, MIN_DATAGRAM_BYTES, Parameters
from tests.swim.link import Host, Link, joined

ALIVE, FAILED = Reachability.ALIVE, Reachability.FAILED


def transport(observer: Host, subject: Host) -> str:
    return {row.host_id: row.transport for row in observer.engine.members()}[subject.host_id]


def failures(link: Link) -> list[str]:
    changes = [change for host in link.hosts.values() for _, change in host.changes()]
    return [change.reason for change in changes if change.after is FAILED]


def test_memberlist_305_a_stale_connection_table_between_two_hosts_is_passed_by_stream_and_said() -> None:
    link = joined(4, seed=2, parameters=replace(LAN, num_indirect=0))
    first, second, third, _ = link.hosts.values()
    pair = {first.address, second.address}
    link.is_filtered = lambda source, target: {source, target} == pair
    link.run(60.0)
    assert failures(link) == []
    assert transport(first, second) == transport(second, first) == "stream"
    assert transport(first, third) == transport(third, second) == "udp"
    link.is_filtered = lambda _source, _target: False
    link.run(15.0)
    assert transport(first, second) == transport(second, first) == "udp"


def test_alertmanager_1564_a_host_whose_datagrams_are_blocked_is_shown_with_its_transport() -> None:
    link = joined(5, seed=3)
    *others, hidden = link.hosts.values()
    link.is_filtered = lambda source, target: hidden.address in (source, target)
    link.run(60.0)
    assert link.is_whole()
    assert failures(link) == []
    assert {transport(host, hidden) for host in others} == {"stream"}
    assert {transport(hidden, host) for host in others} == {"stream"}
    assert {transport(others[0], host) for host in others[1:]} == {"udp"}
    link.is_filtered = lambda _source, _target: False
    link.run(15.0)
    assert {transport(host, hidden) for host in others} == {"udp"}


@pytest.mark.parametrize("mtu_bytes", [MIN_DATAGRAM_BYTES, 1132])
def test_corrosion_460_datagrams_fit_the_paths_they_are_told_of(mtu_bytes: int) -> None:
    link = Link(seed=4)
    link.mtu_bytes = mtu_bytes
    for number in range(12):
        host = link.add(number)
        host.passenger.outgoing = [bytes(100)] * 50
        host.engine.limit_datagrams(mtu_bytes)
    link.streams_work = False  # what is too large has no other way
    link.run(60.0, until=link.is_whole)
    assert link.is_whole()
    assert mtu_bytes - 110 < max(len(data) for data, _, _ in link.wiretap) <= mtu_bytes


@pytest.mark.parametrize("profile", ["lan", "wan", "local"])
def test_a_path_that_silently_swallows_more_than_ipv6_carries_is_none_the_worse(profile: str) -> None:
    link = Link(seed=8, parameters=Parameters.for_profile(profile))
    link.mtu_bytes = 1280 - 48
    for number in range(12):
        link.add(number).passenger.outgoing = [bytes(100)] * 50
    link.streams_work = False
    link.run(300.0, until=link.is_whole)
    assert link.is_whole()
    link.run(30.0)
    assert failures(link) == []
    assert link.mtu_bytes - 110 < max(len(data) for data, _, _ in link.wiretap) <= link.mtu_bytes


def test_corrosion_460_no_path_makes_datagrams_larger_than_asked_for_or_useless() -> None:
    link = joined(2, seed=5)
    engine = next(iter(link.hosts.values())).engine
    for path_bytes, taken in ((65_000, LAN.datagram_bytes), (1052, 1052), (60, MIN_DATAGRAM_BYTES)):
        engine.limit_datagrams(path_bytes)
        assert engine._context.datagram_bytes == taken


def test_serf_604_a_fleet_that_takes_over_an_address_of_another_fleet_does_not_merge_with_it() -> None:
    link = joined(4, seed=6)
    *first_fleet, gone = link.hosts.values()
    link.kill(gone)
    link.run(30.0)
    assert link.all_see(first_fleet, [gone], FAILED)
    others = [link.add(50, address=gone.address, fleet="other", seeds=[])]
    others += [link.add(number, fleet="other", seeds=[gone.address]) for number in (51, 52)]
    others[0].seeds = [host.address for host in first_fleet]  # even if it is told to
    link.run(400.0)
    assert link.all_see(others, others, ALIVE)
    assert link.all_see(first_fleet, first_fleet, ALIVE)
    own, foreign = {host.host_id for host in first_fleet}, {host.host_id for host in others}
    for host in link.hosts.values():
        known = {row.host_id for row in host.engine.members()}
        assert not known & (foreign if host in first_fleet else own)
    assert first_fleet[0].engine.counters["drops/bad_label"] > 0


def test_consul_529_an_ipv4_host_is_told_of_ipv6_peers_and_stays_up() -> None:
    link = Link(seed=7)
    link.add(0, address=Address("10.0.0.1", 7977))
    link.add(1, address=Address("2001:db8::1", 7977))
    four = link.add(2, address=Address("10.0.0.3", 7977), seeds=[Address("10.0.0.1", 7977)])
    families = {True: "2001:db8::1", False: "10.0.0.3"}
    # The two families reach each other through the host that has both alone.
    link.is_cut = lambda source, target: {source.host, target.host} == set(families.values())
    link.run(120.0)
    assert link.is_whole()
    assert failures(link) == []
    assert four.sees(link.hosts[Address("2001:db8::1", 7977)]) is ALIVE
