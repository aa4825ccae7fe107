"""What one host makes of two that claim one address, told what one likes; no network."""

from __future__ import annotations

import pytest

from gpumesh.model import Address
from gpumesh.swim.conflict import ELSEWHERE_S
from gpumesh.swim.ports import IdentityConflict
from gpumesh.swim.statement import Vouch
from tests.swim.bench import ALIVE, FAILED, LEFT, ME, A, Bench, X
from tests.swim.link import host_id


@pytest.fixture
def bench() -> Bench:
    return Bench()


def conflicts_of(bench: Bench) -> list[IdentityConflict]:
    return [event for event in bench.context.events if isinstance(event, IdentityConflict)]


def test_a_host_at_anothers_address_has_both_probed_and_is_no_conflict_yet(bench: Bench) -> None:
    bench.tell(ALIVE, host_id(50), address=bench.x.address)
    assert {X, host_id(50)} <= set(bench.context.doubts)
    assert conflicts_of(bench) == []


def test_who_was_failed_is_not_taken_back_at_an_address_where_another_lives(bench: Bench) -> None:
    bench.fail()
    usurper = host_id(50)
    bench.tell(ALIVE, usurper, address=bench.x.address)
    bench.tell(ALIVE, incarnation=7, address=bench.x.address, at=20.0)
    bench.belief.handle_evidence(bench.x, 7, 20.0, is_proven=True)
    bench.belief.handle_vouch(Vouch(X, 1, 7, A), 20.0)
    assert bench.x.reachability is FAILED
    assert conflicts_of(bench) == [], "that the other lives, too, is not shown yet"
    for at in (20.0, 27.0):
        assert conflicts_of(bench) == [], "that it lasts is not shown yet"
        bench.tell(ALIVE, incarnation=7, address=bench.x.address, at=at)
        bench.belief.handle_evidence(bench.member(usurper), 0, at, is_proven=True, is_answer=True)
    assert [event.host_id for event in conflicts_of(bench)] == [X]
    bench.tell(ALIVE, incarnation=7, address=Address("10.0.0.99", 9), at=20.0)
    assert bench.x.reachability is ALIVE


def test_who_claims_this_hosts_own_address_is_taken_only_by_an_answer_from_there(bench: Bench) -> None:
    bench.tell(ALIVE, host_id(50), address=bench.context.address)
    other = bench.member(host_id(50))
    bench.belief.displace(other, ME, 15.0)
    assert other.reachability is FAILED
    bench.belief.handle_evidence(other, 1, 20.0, is_proven=True)
    assert other.reachability is FAILED
    bench.belief.handle_evidence(other, 1, 20.0, is_proven=True, is_answer=True)
    assert other.reachability is ALIVE, "this host is the one that is elsewhere"


def test_who_was_failed_is_taken_back_once_the_other_at_its_address_is_gone(bench: Bench) -> None:
    bench.fail()
    usurper = host_id(50)
    bench.tell(ALIVE, usurper, address=bench.x.address)
    bench.tell(LEFT, usurper)
    bench.tell(ALIVE, incarnation=7, address=bench.x.address, at=20.0)
    assert bench.x.reachability is ALIVE


def test_a_host_reached_only_where_it_calls_from_keeps_nobody_out_of_its_address(bench: Bench) -> None:
    bench.fail()
    usurper = host_id(50)
    bench.tell(ALIVE, usurper, address=bench.x.address)
    other = bench.member(usurper)
    other.transport, other.answered_there_at = "return", 10.0
    bench.tell(ALIVE, incarnation=7, address=bench.x.address, at=20.0)
    assert bench.x.reachability is FAILED, "it answered there just now"
    bench.context.now = 11.0 + ELSEWHERE_S
    bench.tell(ALIVE, incarnation=7, address=bench.x.address, at=bench.context.now)
    assert bench.x.reachability is ALIVE
