"""Two hosts at one address: who has it is settled once, and both are told wherever a word gets through."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gpumesh.model import Address, Reachability
from tests.swim.link import Host, Link, joined

ALIVE, FAILED = Reachability.ALIVE, Reachability.FAILED
BEHIND = Address("192.0.2.99", 7977)
"""Where the host that does not have the address sends from, and is answered."""
NEW_HOME = Address("10.9.9.9", 7977)


@dataclass
class Shared:
    """A fleet of four, of whom one lost its address to a second, and goes on claiming it."""

    link: Link
    others: list[Host]
    first: Host
    second: Host
    address: Address
    begun_at: float

    def changes(self, host: Host) -> list[tuple[str, Reachability]]:
        return [(event.host_id, event.after) for at, event in host.changes() if at >= self.begun_at]

    def failures_of(self, subject: Host) -> list[str]:
        return [
            host.name
            for host in self.link.hosts.values()
            for host_id, after in self.changes(host)
            if host_id == subject.host_id and after is FAILED
        ]


def put(link: Link, host: Host, address: Address) -> None:
    """Let the host send from, and be answered at, another address; it is not told."""
    if link.hosts.get(host.address) is host:
        del link.hosts[host.address]
    host.address = address
    link.hosts[address] = host


def tell_address(link: Link, host: Host) -> None:
    """Let the host notice where it is."""
    host.engine.set_address(host.address, link.now)
    link._settle(host)


def shared(seed: int) -> Shared:
    """Both can hear: of an address behind which there are two, or of `gossip.advertise` that was copied."""
    link = joined(4, seed=seed)
    *others, first = link.hosts.values()
    link.run(5.0)
    address = first.address
    put(link, first, BEHIND)
    begun_at = link.now
    second = link.add(70, address=address, seeds=[host.address for host in others])
    return Shared(link, others, first, second, address, begun_at)


@pytest.mark.parametrize("seed", [16, 17, 18])
def test_two_hosts_at_one_address_that_both_hear_are_settled_once_and_both_told(seed: int) -> None:
    fleet = shared(seed)
    link, others, first, second = fleet.link, fleet.others, fleet.first, fleet.second
    link.run(20.0, until=lambda: bool(first.conflicts() and second.conflicts()))
    assert link.now - fleet.begun_at < 20.0
    link.run(80.0)
    for host in others:
        assert fleet.changes(host) == [(second.host_id, ALIVE), (first.host_id, FAILED)]
        assert all(first.host_id in event.reason for event in host.conflicts())
        assert all(second.host_id in event.reason for event in host.conflicts())
        assert len(host.conflicts()) <= 2, "at most once a minute"
    for host, other in ((first, second), (second, first)):
        reason = f"{other.host_id} claims {fleet.address}, as does this host"
        assert {event.reason for event in host.conflicts()} == {reason}
        assert all(event.is_here for event in host.conflicts())
        assert len(host.conflicts()) == 2, "for as long as it lasts, once a minute"
    assert fleet.failures_of(second) == []
    assert first.engine.incarnation < 5


@pytest.mark.parametrize("seed", [16, 17, 18])
def test_a_host_that_copied_anothers_address_is_refused_and_the_other_stays(seed: int) -> None:
    link = joined(4, seed=seed)
    *others, first = link.hosts.values()
    link.run(5.0)
    begun_at = link.now
    copy = link.add(70, address=first.address, seeds=[host.address for host in others])
    put(link, copy, BEHIND)
    put(link, first, first.engine.members()[0].address)
    fleet = Shared(link, others, first, copy, first.address, begun_at)
    link.run(80.0)
    assert link.all_see(others, [first], ALIVE)
    assert link.all_see([*others, first], [copy], FAILED)
    assert fleet.failures_of(first) == []
    assert all(len(fleet.changes(host)) <= 2 for host in others)
    assert copy.conflicts()
    assert first.conflicts()


@pytest.mark.parametrize("seed", [16, 17, 18])
def test_of_two_hosts_at_one_address_the_one_that_hears_is_told_also_if_the_other_only_speaks(
    seed: int,
) -> None:
    link = joined(4, seed=seed)
    *others, first = link.hosts.values()
    link.run(5.0)
    second = link.add(70, address=first.address, seeds=[host.address for host in others])
    # Whatever is sent there reaches the second from now on; the first can only speak, as with a doubled IP.
    link.hosts[BEHIND] = first
    took_s = link.run(10.0, until=lambda: link.all_see(others, [second], ALIVE))
    assert took_s < 2.0
    link.run(30.0)
    assert link.all_see(others, [second], ALIVE)
    assert link.all_see(others, [first], FAILED)
    told = [event.reason for host in others for event in host.conflicts()]
    assert told
    assert all(first.host_id in reason and second.host_id in reason for reason in told)
    failed = {change.reason for host in others for _, change in host.changes() if change.after is FAILED}
    assert any(f"now answers as {second.host_id}" in reason for reason in failed)
    own = [event.reason for event in second.conflicts()]
    assert own == [f"{first.host_id} claims {first.address}, as does this host"]


@pytest.mark.parametrize("seed", range(3))
def test_the_host_that_was_refused_at_a_shared_address_is_taken_at_another_at_once(seed: int) -> None:
    fleet = shared(seed)
    link, first = fleet.link, fleet.first
    link.run(30.0)
    put(link, first, NEW_HOME)
    tell_address(link, first)
    assert link.run(20.0, until=link.is_whole) < 3.0
    num_told = len(first.conflicts()), len(fleet.second.conflicts())
    link.run(120.0)
    assert link.is_whole()
    assert (len(first.conflicts()), len(fleet.second.conflicts())) == num_told


@pytest.mark.parametrize("says_goodbye", [False, True])
def test_the_host_that_was_refused_at_an_address_has_it_again_once_the_other_is_gone(
    says_goodbye: bool,
) -> None:
    fleet = shared(1)
    link, first, second = fleet.link, fleet.first, fleet.second
    link.run(30.0)
    if says_goodbye:
        second.engine.leave(link.now)
        link._settle(second)
        link.run(1.0)
    link.kill(second)
    put(link, first, fleet.address)
    took_s = link.run(30.0, until=lambda: link.all_see(fleet.others, [first], ALIVE))
    assert took_s < (2.0 if says_goodbye else 10.0)
    link.run(60.0)
    assert link.all_see(fleet.others, [first], ALIVE)


def test_a_new_host_at_the_address_of_one_just_gone_is_taken_at_once_and_is_no_conflict() -> None:
    link = joined(4, seed=17)
    *others, first = link.hosts.values()
    link.run(5.0)
    link.kill(first)
    rebuilt = link.add(70, address=first.address, seeds=[host.address for host in others])
    took_s = link.run(
        10.0,
        until=lambda: link.all_see(others, [rebuilt], ALIVE) and link.all_see(others, [first], FAILED),
    )
    assert took_s < 2.0
    link.run(120.0)
    assert [host.conflicts() for host in link.hosts.values()] == [[]] * len(link.hosts)


@pytest.mark.parametrize("lag_s", [0.0, 2.0, 5.0])
@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_two_hosts_that_swap_addresses_are_followed_at_once_and_are_no_conflict(
    loss: float, lag_s: float
) -> None:
    link = joined(6, seed=2)
    link.loss = loss
    *_, one, other = link.hosts.values()
    link.run(5.0)
    home, away = one.address, other.address
    put(link, one, away)
    put(link, other, home)
    tell_address(link, one)
    link.run(lag_s)  # daemons look where they are now and then
    tell_address(link, other)

    def is_settled() -> bool:
        rows = [row for host in link.hosts.values() for row in host.engine.members()]
        held = {
            row.host_id: {other.address for other in rows if other.host_id == row.host_id} for row in rows
        }
        return link.is_whole() and held[one.host_id] == {away} and held[other.host_id] == {home}

    assert link.run(20.0, until=is_settled) < 5.0
    link.loss = 0.0
    link.run(90.0)
    assert is_settled()
    assert [host.conflicts() for host in link.hosts.values()] == [[]] * len(link.hosts)


@pytest.mark.parametrize("seed", range(3))
def test_an_address_that_leads_now_to_one_host_now_to_another_does_not_flap_without_end(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = shared(seed)
    link, both = fleet.link, (fleet.first, fleet.second)
    deliver = link._deliver

    def toss(data: bytes, source: Address, target: Address) -> None:
        host = link.random.choice(both)
        deliver(data, source, host.address if target == fleet.address else target)

    monkeypatch.setattr(link, "_deliver", toss)
    link.run(80.0)
    assert all(len(fleet.changes(host)) <= 20 for host in fleet.others)
    assert all(host.conflicts() for host in both)


def test_a_former_self_that_is_known_to_be_gone_is_no_conflict() -> None:
    link = joined(4, seed=17)
    *others, first = link.hosts.values()
    link.kill(first)
    link.run(30.0)
    rebuilt = link.add(70, address=first.address, seeds=[host.address for host in others])
    link.run(10.0)
    newcomer = link.add(71, seeds=[host.address for host in others])
    link.run(10.0)
    assert link.all_see([*others, newcomer], [rebuilt], ALIVE)
    assert newcomer.sees(first) is FAILED
    assert [host.conflicts() for host in link.hosts.values()] == [[]] * len(link.hosts)
