"""Probes, relays, seeds, syncs and reaping: what is asked of whom, and that all of it has an end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from gpumesh.config.keyring import FleetKey, Keyring
from gpumesh.model import Address, Reachability
from gpumesh.sim.meter import Meter
from gpumesh.swim.parameters import LAN, Parameters
from gpumesh.swim.ports import MemberForgotten, OpenStream
from gpumesh.swim.seal import FleetSealer
from gpumesh.swim.seeds import NUM_PINGED
from tests.swim.link import KEY, Link, host_id, joined

ALIVE, SUSPECT, FAILED, LEFT = list(Reachability)


def test_relays_say_that_they_live_although_the_subject_is_silent() -> None:
    link = joined(5, seed=1)
    *others, victim = link.hosts.values()
    link.kill(victim)
    link.run(20.0, until=lambda: any(host.sees(victim) is SUSPECT for host in others))
    assert sum(host.engine.counters["received/nack"] for host in others) > 0
    assert max(host.engine.awareness for host in others) == 0, "nacks came: the fault is not here"


def test_an_accuser_without_nacks_doubts_itself() -> None:
    link = joined(5, seed=2)
    *others, lonely = link.hosts.values()
    link.is_cut = lambda source, target: lonely.address in (source, target)
    link.run(30.0)
    assert lonely.engine.awareness >= 3
    assert max(host.engine.awareness for host in others) <= 1
    link.is_cut = lambda _source, _target: False
    link.run(120.0)
    assert lonely.engine.awareness == 0


def test_answers_by_relay_keep_a_member_alive_whose_direct_way_is_cut() -> None:
    link = joined(4, seed=3)
    first, second, *_ = link.hosts.values()
    link.streams_work = False
    link.is_cut = lambda source, target: {source, target} == {first.address, second.address}
    link.run(60.0)
    assert first.sees(second) is ALIVE
    assert second.sees(first) is ALIVE
    assert first.engine.counters["received/relayed_ack"] > 0


def test_a_stream_answers_where_datagrams_do_not_get_through_and_shows_in_the_transport() -> None:
    link = joined(2, seed=4)
    first, second = link.hosts.values()
    link.datagrams_work = False
    link.run(30.0)
    row = next(row for row in first.engine.members() if row.host_id == second.host_id)
    assert (row.reachability, row.transport) == (ALIVE, "stream")
    link.datagrams_work = True
    link.run(5.0)
    row = next(row for row in first.engine.members() if row.host_id == second.host_id)
    assert row.transport == "udp"


def test_seeds_are_wanted_for_ever_with_growing_waits() -> None:
    link = Link(seed=5)
    host = link.add(0, seeds=[Address("192.0.2.1", 7977)])
    wanted_at: list[float] = []

    def note() -> bool:
        if host.engine.counters["sent/ping"] > len(wanted_at):
            wanted_at.append(link.now)
        return False

    link.run(400.0, until=note)
    waits = [after - before for before, after in pairwise(wanted_at)]
    assert waits[0] < waits[2] < waits[4]
    assert max(waits) <= LAN.seed_retry_max_s + 1.0
    assert len(waits) > 10


def test_a_cache_of_thousands_of_peers_is_asked_a_few_at_a_time() -> None:
    link = Link(seed=6)
    peers = [Address(f"192.0.2.{number % 250 + 1}", 1000 + number) for number in range(3000)]
    host = link.add(0, seeds=[])
    host.engine.seed(peers, link.now)
    assert len(host.engine.datagrams_to_send()) == NUM_PINGED


def test_names_and_its_own_address_among_seeds_are_passed_over() -> None:
    link = Link(seed=7)
    host = link.add(0, seeds=[])
    host.engine.seed([Address("seed.example.org", 1), Address("0.0.0.0", 1), host.address], link.now)
    assert host.engine.datagrams_to_send() == []
    assert host.engine.counters["drops/bad_seed"] == 2


def test_fleets_that_started_apart_become_one_through_a_seed() -> None:
    link = Link(seed=8)
    hosts = [link.add(0, seeds=[]), link.add(1), link.add(2, seeds=[])]
    last = link.add(3, seeds=[hosts[2].address])
    link.run(10.0)
    assert hosts[0].sees(last) is None
    last.seeds.append(hosts[0].address)
    link.run(400.0, until=link.is_whole)
    assert link.is_whole()


def test_consul_9927_a_joining_host_does_not_tell_the_fleet_of_itself() -> None:
    link = joined(40, seed=9)
    link.run(30.0)
    newcomer = link.add(41)
    link.run(1.0, until=lambda: len(newcomer.engine.members()) > 40)
    assert len(newcomer.engine.members()) == 41
    assert newcomer.engine.queue_sizes["broadcasts"] < 10


def test_memberlist_253_gone_members_are_forgotten_in_time_and_the_passenger_told() -> None:
    parameters = replace(LAN, left_retention_s=100.0, failed_retention_s=300.0)
    link = joined(4, seed=10, parameters=parameters)
    first, _, leaver, victim = link.hosts.values()
    leaver.engine.leave(link.now)
    link._settle(leaver)
    link.run(3.0)
    link.kill(leaver)
    link.kill(victim)
    link.run(200.0)
    assert (first.sees(leaver), first.sees(victim)) == (None, FAILED)
    link.run(300.0)
    assert first.sees(victim) is None
    assert set(first.passenger.forgotten) == {leaver.host_id, victim.host_id}
    forgotten = {event.host_id for _, event in first.events if isinstance(event, MemberForgotten)}
    assert forgotten == {leaver.host_id, victim.host_id}


def test_memberlist_253_hosts_do_not_remind_each_other_of_the_gone_for_ever() -> None:
    parameters = replace(LAN, left_retention_s=300.0, sync_interval_s=10.0)
    link = joined(3, seed=17, parameters=parameters)
    first, second, leaver = link.hosts.values()
    leaver.engine.leave(link.now)
    link._settle(leaver)
    link.run(3.0)
    link.kill(leaver)
    link.run(200.0)
    newcomer = link.add(9)
    link.run(20.0)
    assert newcomer.sees(leaver) is LEFT, "a newcomer learns who left, lest stale word bring it back"
    link.run(400.0)
    assert [host.sees(leaver) for host in (first, second, newcomer)] == [None, None, None]


def test_a_full_table_refuses_strangers_and_says_so() -> None:
    parameters = replace(LAN, num_members=16)
    link = Link(seed=11, parameters=parameters)
    hosts = [link.add(number) for number in range(20)]
    link.run(20.0)
    assert all(len(host.engine.members()) <= 17 for host in hosts)
    assert hosts[0].engine.counters["drops/table_full"] > 0


def test_serf_579_a_fleet_rotates_its_key_without_losing_anybody() -> None:
    link = joined(4, seed=12)
    new = FleetKey(b"n" * 32)
    for ring in (Keyring((*KEY.keys, new)), Keyring((new, *KEY.keys)), Keyring((new,))):
        for host in link.hosts.values():
            sealer = host.engine._context.sealer
            assert isinstance(sealer, FleetSealer)
            sealer.rekey(ring)
            link.run(3.0)
        link.run(20.0)
    assert link.is_whole()
    changes = [event for host in link.hosts.values() for _, event in host.changes()]
    assert {event.after for event in changes} == {ALIVE}


def test_a_fleet_lives_on_ipv6() -> None:
    link = Link(seed=13)
    for number in range(3):
        link.add(number, address=Address(f"2001:db8::{number + 1:x}", 7977))
    link.run(5.0, until=link.is_whole)
    assert link.is_whole()


def test_consul_1465_nat_that_rewrites_the_source_is_no_obstacle() -> None:
    link = joined(3, seed=14)
    first, second, _ = link.hosts.values()
    rewritten = Address("198.51.100.7", 40_000)
    link.run(5.0)
    pings: list[bytes] = []
    for _ in range(4):  # a pass of two members, and whoever is being asked already
        second.engine._probing.handle_round(link.now)
        pings += [data for data, target in second.engine.datagrams_to_send() if target == first.address]
    assert pings
    for data in pings:
        first.engine.handle_datagram(data, rewritten, link.now)
    assert {target for _, target in first.engine.datagrams_to_send()} == {rewritten}
    row = next(row for row in first.engine.members() if row.host_id == second.host_id)
    assert row.address == second.address


def test_memberlist_259_syncs_with_peers_that_never_answer_do_not_pile_up() -> None:
    link = Link(seed=18)
    host = link.add(0, seeds=[])
    peers = [Address(f"10.7.{number // 250}.{number % 250 + 1}", 7977) for number in range(500)]
    most, num_opened = 0, 0
    for _ in range(300):
        for number, address in enumerate(peers):
            host.engine._streams.open(address, link.now, wanted=host_id(number))
            assert not host.engine._streams.open(address, link.now, wanted=host_id(number)), "one a peer"
            host.engine._context.want_sync(host_id(1000 + number))
        while (action := host.engine.next_stream_action()) is not None:
            if isinstance(action, OpenStream):
                num_opened += 1
                host.engine.handle_stream_opened(action.stream_id, link.now)  # and then not a word
        most = max(most, host.engine.queue_sizes["streams"])
        assert len(host.engine._context.wanted_syncs) <= LAN.num_streams
        link.run(1.0)
    assert most == LAN.num_streams
    assert num_opened > 2 * LAN.num_streams, "those that say nothing are given up and make room"
    link.run(LAN.stream_timeout_s + 1.0)
    assert host.engine.queue_sizes["streams"] == 0
    assert host.engine.counters["streams/timed_out"] > 0


def costs_a_host(count: int, seed: int) -> tuple[float, float]:
    """Return the datagrams sent and the steps taken by one host in a quiet minute of a fleet of ``count``."""
    link = joined(count, seed=seed)
    link.run(60.0)
    engine, meter, num_steps = next(iter(link.hosts.values())).engine, Meter(), 0
    for name in ("handle_datagram", "handle_timer", "handle_stream_data"):
        plain = getattr(engine, name)

        def counted(*arguments: object, plain: Callable[..., object] = plain) -> object:
            nonlocal num_steps
            result, taken = meter.measure(plain, *arguments)
            num_steps += taken
            return result

        setattr(engine, name, counted)
    before = sum(count for name, count in engine.counters.items() if name.startswith("sent/"))
    link.run(60.0)
    after = sum(count for name, count in engine.counters.items() if name.startswith("sent/"))
    return after - before, num_steps


def test_memberlist_243_what_a_host_costs_does_not_grow_with_the_fleet() -> None:
    small, large = costs_a_host(8, seed=19), costs_a_host(48, seed=19)
    assert large[0] <= 1.3 * small[0]
    # The table goes over in syncs: a little grows, six times as many members cost nothing like six times.
    assert large[1] <= 2.0 * small[1]


def test_the_local_profile_finds_a_crash_five_times_faster() -> None:
    link = joined(5, seed=15, parameters=Parameters.for_profile("local"))
    *others, victim = link.hosts.values()
    link.kill(victim)
    assert link.run(10.0, until=lambda: link.all_see(others, [victim], FAILED)) < 2.5


def test_beats_and_time_of_others_do_not_wake_an_idle_host_often() -> None:
    link = joined(2, seed=16)
    first, second = link.hosts.values()
    link.run(60.0)
    sent = sum(count for name, count in first.engine.counters.items() if name.startswith("sent/"))
    link.run(60.0)
    after = sum(count for name, count in first.engine.counters.items() if name.startswith("sent/"))
    assert after - sent <= 2 * 60 + 20, "a ping and an ack a second, and little else"
    assert host_id(1) == second.host_id
