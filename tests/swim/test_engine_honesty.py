"""Who accuses whom, and with what right: stalls, isolation, refutation, vouching, hearsay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpumesh.model import Address, Reachability
from gpumesh.swim.engine import Swim
from gpumesh.swim.fields import MAX_INCARNATION
from gpumesh.swim.parameters import LAN, Parameters
from gpumesh.swim.seal import FleetSealer
from gpumesh.swim.statement import Statement
from gpumesh.swim.wire import decode
from tests.swim.link import KEY, Host, Link, joined

ALIVE, SUSPECT, FAILED = Reachability.ALIVE, Reachability.SUSPECT, Reachability.FAILED


def num_sent(host: Host) -> int:
    return sum(count for name, count in host.engine.counters.items() if name.startswith("sent/"))


def failed_by(host: Host) -> list[str]:
    return [event.host_id for _, event in host.changes() if event.after is FAILED]


def test_refutation_raises_incarnation_and_clears_the_suspect_everywhere() -> None:
    link = joined(5, seed=1)
    *others, slow = link.hosts.values()
    slow.is_stopped = True
    link.run(20.0, until=lambda: any(host.sees(slow) is SUSPECT for host in others))
    link.run(1.0)
    link.resume(slow)
    link.run(5.0)
    assert link.is_whole()
    assert slow.engine.incarnation >= 1
    assert [event.held for event in slow.accusations()][:1] == [SUSPECT]
    assert all(failed_by(host) == [] for host in others)


def test_a_host_failed_while_it_was_stopped_returns_and_learns_what_was_held_of_it() -> None:
    link = joined(5, seed=2)
    *others, slow = link.hosts.values()
    slow.is_stopped = True
    link.run(60.0)
    assert link.all_see(others, [slow], FAILED)
    link.resume(slow)
    assert link.run(10.0, until=link.is_whole) < 10.0
    assert FAILED in {event.held for event in slow.accusations()}


@pytest.mark.parametrize("stopped_s", [2.0, 30.0, 600.0])
def test_akka_30335_a_process_that_was_stopped_accuses_nobody(stopped_s: float) -> None:
    link = joined(6, seed=3)
    stopped = list(link.hosts.values())[1]
    stopped.is_stopped = True
    link.run(stopped_s)
    stopped.held.clear()  # even if its socket's buffer kept nothing
    link.resume(stopped)
    link.run(0.1)
    assert stopped.engine.counters["stalls"] == 1
    assert stopped.engine.awareness >= 1
    link.run(60.0)
    assert failed_by(stopped) == []
    assert link.is_whole()


def starve(parameters: Parameters, burst_s: float, *, is_heard: bool) -> dict[Reachability, int]:
    """Starve four of twelve; return how often healthy ones suspected, and any failed, a healthy one."""
    link = joined(12, seed=4, parameters=parameters)
    hosts = list(link.hosts.values())
    starved, healthy = hosts[:4], {host.host_id for host in hosts[4:]}
    for _ in range(25):
        for host in starved:
            host.is_stopped = True
        link.run(8.0)
        for host in starved:
            if not is_heard:
                host.held.clear()  # its socket's buffer overflowed
            link.resume(host)
        link.run(burst_s)
    if parameters.weighs_evidence:
        assert min(host.engine.counters["stalls"] for host in starved) > 20
        assert min(host.engine.awareness for host in starved) >= 6
    accusations = {SUSPECT: 0, FAILED: 0}
    for host in hosts:
        for _, event in host.changes():
            is_own_secret = event.after is SUSPECT and host.host_id not in healthy
            if event.host_id in healthy and event.after in accusations and not is_own_secret:
                accusations[event.after] += 1
    return accusations


@pytest.mark.parametrize(("burst_s", "is_heard"), [(0.05, True), (0.0003, True), (0.0003, False)])
def test_consul_916_hosts_that_run_in_short_bursts_fail_no_healthy_host(
    burst_s: float, is_heard: bool
) -> None:
    assert starve(LAN, burst_s, is_heard=is_heard) == {SUSPECT: 0, FAILED: 0}


def test_consul_916_the_same_bursts_under_plain_swim_fail_healthy_hosts() -> None:
    plain = replace(LAN, weighs_evidence=False, awareness_max=1, suspicion_max_mult=1)
    accusations = starve(plain, 0.0003, is_heard=False)
    assert min(accusations.values()) > 10


def accusations_told(link: Link, teller: Host) -> list[Statement]:
    """Return what a host accused others of, as told to anybody but the accused."""
    reader = FleetSealer(KEY, "test", bytes(16))
    told = []
    for data, source, target in link.wiretap:
        if source == teller.address:
            for statement in decode(reader.open(data).body).statements:
                if isinstance(statement, Statement) and statement.accuser == teller.host_id:
                    told += [statement] if link.hosts[target].host_id != statement.host_id else []
    return told


@pytest.mark.parametrize("can_speak", [False, True])
def test_consul_5928_an_isolated_host_fails_nobody_and_spreads_no_suspicion(can_speak: bool) -> None:
    link = joined(6, seed=5)
    *others, lonely = link.hosts.values()
    link.wiretap.clear()
    ways = {(host.address, lonely.address) for host in others}
    ways |= set() if can_speak else {(lonely.address, host.address) for host in others}
    link.is_cut = lambda source, target: (source, target) in ways
    link.run(180.0)
    assert failed_by(lonely) == []
    assert any(lonely.sees(host) is SUSPECT for host in others)
    assert lonely.engine.counters["suspicions/postponed_isolated"] > 0
    assert lonely.engine.last_heard_at is not None
    assert link.now - lonely.engine.last_heard_at > 150
    assert lonely.engine.queue_sizes["broadcasts"] == 0
    assert accusations_told(link, lonely) == []


def test_a_deaf_host_makes_nobody_else_fail_anybody() -> None:
    link = joined(6, seed=6)
    *others, deaf = link.hosts.values()
    link.is_cut = lambda _source, target: target == deaf.address
    link.run(120.0)
    for host in others:
        assert set(failed_by(host)) <= {deaf.host_id}
        assert all(host.sees(other) is ALIVE for other in others if other is not host)


def test_members_of_an_isolated_host_have_no_evidence_newer_than_the_last_word() -> None:
    link = joined(4, seed=7)
    *others, lonely = link.hosts.values()
    link.is_cut = lambda source, target: lonely.address in (source, target)
    cut_at = link.now
    link.run(60.0)
    ids = {host.host_id for host in others}
    ages = [view.evidence_at for view in lonely.engine.members() if view.host_id in ids]
    assert max(ages) <= cut_at + 0.1


def test_alive_and_unaccused_members_count_as_evidenced_now() -> None:
    link = joined(10, seed=8)
    link.run(30.0)
    first = next(iter(link.hosts.values()))
    assert all(link.now - view.evidence_at < 2.5 for view in first.engine.members())


def test_an_accused_member_that_answers_directly_is_acquitted() -> None:
    """One liar accuses; everybody else can reach the accused, which must never be failed."""
    link = joined(5, seed=9)
    accused, liar, *_ = link.hosts.values()
    # The liar hears nothing of the accused by any way, and nothing that others relay from it.
    link.is_cut = lambda source, target: {source, target} == {accused.address, liar.address}
    link.streams_work = False
    link.run(120.0)
    assert all(accused.host_id not in failed_by(host) for host in link.hosts.values())


def test_connection_refused_shortens_the_way_to_a_suspicion() -> None:
    link = joined(5, seed=10)
    first, *_, last = link.hosts.values()
    link.run(3.0)
    link.kill(last)
    first.engine.handle_unreachable(last.address, link.now)
    link._settle(first)
    took_s = link.run(10.0, until=lambda: first.sees(last) is SUSPECT)
    assert took_s <= link.parameters.probe_interval_s + 0.05


def test_connection_refused_for_a_living_member_is_no_verdict() -> None:
    link = joined(4, seed=11)
    first, second, *_ = link.hosts.values()
    first.engine.handle_unreachable(second.address, link.now)
    first.engine.handle_unreachable(Address("192.0.2.1", 1), link.now)
    link._settle(first)
    link.run(20.0)
    assert link.is_whole()
    assert [event for _, event in first.changes() if event.after is not ALIVE] == []


def test_the_member_that_stalls_puts_off_running_suspicions_by_the_gap() -> None:
    link = joined(4, seed=12)
    first, *_, last = link.hosts.values()
    link.kill(last)
    link.run(20.0, until=lambda: first.sees(last) is SUSPECT)
    first.is_stopped = True
    link.run(30.0)
    first.held.clear()
    engine: Swim = first.engine
    engine.handle_timer(link.now)
    assert first.sees(last) is SUSPECT, "the suspicion's time passed while nobody could be heard"


def test_foca_25_accused_and_accuser_do_not_chatter_without_end() -> None:
    """Whose incarnation cannot rise any more refutes in vain: a word of either calls for one of the other."""
    link = joined(2, seed=13)
    first, second = link.hosts.values()
    second.engine._defence._raise_above(MAX_INCARNATION, link.now)
    link.run(10.0)
    link.is_cut = lambda _source, _target: True
    link.run(120.0)
    assert first.sees(second) is FAILED
    link.is_cut = lambda _source, _target: False
    link.run(10.0)
    before = [(host.engine.counters["notices/withheld"], num_sent(host)) for host in (first, second)]
    link.run(60.0)
    after = [(host.engine.counters["notices/withheld"], num_sent(host)) for host in (first, second)]
    assert first.sees(second) is FAILED, "so that the two have had cause to chatter all the time"
    assert after[0][0] > before[0][0], "and the accuser more often than it did"
    sent = [late[1] - early[1] for late, early in zip(after, before, strict=True)]
    assert sent[0] <= 2 * 60, "a notice a second at most, beside probes and their answers"
    assert sent[1] <= 3 * 60


def test_a_filter_that_rejects_datagrams_while_streams_pass_is_no_death() -> None:
    link = joined(5, seed=14)
    *others, filtered = link.hosts.values()
    link.run(2.0)
    for _ in range(40):
        for host in others:
            host.engine.handle_unreachable(filtered.address, link.now)
            link._settle(host)
        link.run(0.5)
    assert all(filtered.host_id not in failed_by(host) for host in others)
    assert link.is_whole()


def test_a_refused_datagram_and_a_refused_stream_make_everybody_know_within_seconds() -> None:
    link = joined(6, seed=15)
    *others, dead = link.hosts.values()
    link.run(3.0)
    link.kill(dead)
    for host in others:
        host.engine.handle_unreachable(dead.address, link.now)
        link._settle(host)
    took_s = link.run(20.0, until=lambda: link.all_see(others, [dead], FAILED))
    assert took_s <= link.parameters.refusal_s + 1.0
    reasons = {event.reason for host in others for _, event in host.changes() if event.after is FAILED}
    assert all("its daemon died, the host answers" in reason for reason in reasons)
