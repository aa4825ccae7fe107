"""How one host's belief changes with what it is told; no network."""

from __future__ import annotations

import pytest

from gpumesh.model import Address, Reachability
from gpumesh.swim.ports import MemberChanged
from gpumesh.swim.statement import Vouch
from tests.swim.bench import ALIVE, FAILED, LEFT, ME, SUSPECT, A, B, Bench, C, X
from tests.swim.link import QuietPassenger, host_id


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_accusation_by_an_alive_member_is_believed_and_passed_on(bench: Bench) -> None:
    bench.tell(SUSPECT, accuser=A)
    assert bench.x.reachability is SUSPECT
    assert bench.x.accuser == A
    assert ("suspicion", X) in bench.context.agenda
    assert bench.changes() == [(ALIVE, SUSPECT)]


def test_a_suspicion_that_nobody_refutes_becomes_a_failure(bench: Bench) -> None:
    bench.tell(SUSPECT, accuser=A)
    bench.judge(27.9)
    assert bench.x.reachability is SUSPECT, "its time is not over"
    bench.judge_after_last_look(28.1)
    assert bench.x.reachability is FAILED
    assert bench.x.accuser == ME


def test_an_accusation_that_nobody_confirms_is_looked_into_once_more_before_the_verdict(bench: Bench) -> None:
    bench.tell(SUSPECT, accuser=A)
    bench.judge(28.1)
    assert bench.x.reachability is SUSPECT
    assert list(bench.context.doubts.items()) == [(X, True)]
    bench.belief.handle_evidence(bench.x, 0, 28.2, is_proven=True)
    assert bench.x.reachability is ALIVE


def test_a_last_look_by_one_who_cannot_see_begins_the_wait_anew(bench: Bench) -> None:
    bench.tell(SUSPECT, accuser=A)
    bench.judge(28.1)
    bench.judging.accuse(bench.x, 28.6, is_sound=False)
    bench.judge(40.0)
    assert bench.x.reachability is SUSPECT


def test_an_unsound_accuser_tells_nobody(bench: Bench) -> None:
    bench.post.drain()
    num_before = len(bench.context.broadcasts)
    bench.judging.accuse(bench.x, 11.0, is_sound=False)
    assert bench.x.reachability is SUSPECT
    assert len(bench.context.broadcasts) == num_before
    assert [to for _, to in bench.post.drain()] == [bench.x.address], "but the accused itself is asked"


def test_the_first_accuser_calls_witnesses_at_once(bench: Bench) -> None:
    bench.post.drain()
    bench.judging.accuse(bench.x, 11.0, is_sound=True)
    told = {to for _, to in bench.post.drain()}
    assert told == {bench.member(other).address for other in (A, B, C, X)}


def test_who_hears_it_from_the_accuser_itself_looks_at_once(bench: Bench) -> None:
    bench.tell(SUSPECT, accuser=A, is_first_hand=True)
    assert list(bench.context.doubts.items()) == [(X, True)]


def test_who_hears_it_from_others_leaves_looking_to_the_witnesses(bench: Bench) -> None:
    bench.tell(SUSPECT, accuser=A)
    assert not bench.context.doubts


def test_a_failure_that_not_enough_confirmed_is_examined_and_taken_after_a_failed_look(bench: Bench) -> None:
    bench.tell(SUSPECT, accuser=A)
    bench.tell(FAILED, accuser=B, at=11.0)
    assert bench.x.reachability is SUSPECT
    assert X in bench.context.doubts
    bench.judging.accuse(bench.x, 11.5, is_sound=False)
    assert bench.x.reachability is SUSPECT, "who cannot see confirms nothing"
    bench.tell(FAILED, accuser=B, at=12.0)
    bench.judging.accuse(bench.x, 12.5, is_sound=True)
    assert bench.x.reachability is FAILED


def test_a_refused_member_is_failed_sooner_and_in_other_words(bench: Bench) -> None:
    bench.judging.accuse(bench.x, 10.0, is_sound=True, is_refused=True)
    bench.tell(SUSPECT, accuser=A, at=10.1)
    bench.tell(SUSPECT, accuser=B, at=10.1)
    bench.tell(SUSPECT, accuser=C, at=10.1)
    bench.judge(10.9)
    assert bench.x.reachability is SUSPECT
    bench.judge(11.1)
    assert bench.x.reachability is FAILED
    assert bench.x.is_refused
    last = bench.context.events[-1]
    assert isinstance(last, MemberChanged)
    assert last.reason.startswith("its daemon died, the host answers; accused by")


def test_refusal_alone_without_corroboration_keeps_the_long_wait(bench: Bench) -> None:
    bench.judging.accuse(bench.x, 10.0, is_sound=True, is_refused=True)
    bench.judge(20.0)
    assert bench.x.reachability is SUSPECT


def test_independent_accusers_bring_the_verdict_forward(bench: Bench) -> None:
    bench.tell(SUSPECT, accuser=A)
    bench.tell(SUSPECT, accuser=A, at=10.5)
    bench.tell(SUSPECT, accuser=B, at=10.5)
    bench.tell(SUSPECT, accuser=C, at=10.6)
    bench.tell(SUSPECT, accuser=ME, at=10.7)
    bench.judge(12.9)
    assert bench.x.reachability is SUSPECT
    bench.judge(13.1)
    assert bench.x.reachability is FAILED


def test_a_host_that_doubts_itself_waits_a_little_for_a_refutation_it_may_read_late(bench: Bench) -> None:
    bench.context.awareness.add(2)
    for accuser in (A, B, C, ME):
        bench.tell(SUSPECT, accuser=accuser)
    bench.judge(13.1)
    assert bench.x.reachability is SUSPECT
    bench.judge(15.0)
    assert bench.x.reachability is SUSPECT
    bench.judge(15.2)
    assert bench.x.reachability is FAILED


def test_refutation_needs_a_higher_incarnation(bench: Bench) -> None:
    bench.tell(SUSPECT, accuser=A)
    bench.tell(ALIVE, address=bench.x.address)
    assert bench.x.reachability is SUSPECT
    bench.tell(ALIVE, incarnation=1, address=bench.x.address)
    assert bench.x.reachability is ALIVE
    assert ("suspicion", X) not in bench.context.agenda


def test_a_suspicion_at_a_higher_incarnation_has_a_fresh_timer(bench: Bench) -> None:
    bench.tell(SUSPECT, accuser=A)
    bench.tell(SUSPECT, incarnation=1, accuser=A, at=30.0)
    bench.judge(35.0)
    assert bench.x.reachability is SUSPECT
    bench.judge_after_last_look(55.0)
    assert bench.x.reachability is FAILED


def test_the_deaf_do_not_judge(bench: Bench) -> None:
    bench.tell(SUSPECT, accuser=A)
    for at in (29.0, 60.0, 600.0):
        bench.judging.handle_suspicion_due(X, at)
    assert bench.x.reachability is SUSPECT
    bench.context.last_heard_at = 601.0
    bench.judging.handle_suspicion_due(X, 602.0)
    assert bench.x.reachability is SUSPECT, "hearing again begins a fresh wait"
    bench.judge_after_last_look(640.0)
    assert bench.x.reachability is FAILED


def test_serf_336_an_accusation_needs_a_known_accuser_other_than_the_subject(bench: Bench) -> None:
    for accuser in ("", X, host_id(99)):
        bench.tell(SUSPECT, accuser=accuser)
        bench.tell(FAILED, accuser=accuser)
    assert bench.x.reachability is ALIVE
    assert bench.context.counters["drops/invalid_accuser"] == 6


@pytest.mark.parametrize("kind", [SUSPECT, FAILED])
def test_hearsay_against_fresh_evidence_is_examined_first(bench: Bench, kind: Reachability) -> None:
    bench.belief.handle_evidence(bench.x, 0, 9.5, is_proven=True)
    bench.tell(kind, accuser=A, at=10.0)
    assert bench.x.reachability is ALIVE
    assert list(bench.context.doubts) == [X]
    assert bench.x.accusation() is not None, "the ping will carry what it is accused of"


@pytest.mark.parametrize("kind", [SUSPECT, FAILED])
def test_hearsay_by_an_accuser_that_is_itself_doubtful_is_examined_first(
    bench: Bench, kind: Reachability
) -> None:
    bench.tell(SUSPECT, A, accuser=B)
    bench.tell(kind, accuser=A)
    assert bench.x.reachability is ALIVE
    assert X in bench.context.doubts


def test_a_failure_told_in_a_sync_is_examined_first(bench: Bench) -> None:
    bench.tell(FAILED, accuser=host_id(99), is_sync=True)
    assert bench.x.reachability is ALIVE
    assert list(bench.context.doubts) == [X]


def test_an_examined_accusation_ends_with_an_answer_and_a_vouch(bench: Bench) -> None:
    bench.tell(FAILED, accuser=A, is_sync=True)
    bench.belief.handle_evidence(bench.x, 0, 10.2, is_proven=True)
    assert bench.x.accusation() is None
    assert bench.changes() == []
    assert len(bench.context.broadcasts) > 0


def test_an_examined_accusation_that_the_probe_confirms_counts_for_both(bench: Bench) -> None:
    bench.belief.handle_evidence(bench.x, 0, 9.5, is_proven=True)
    bench.tell(SUSPECT, accuser=A)
    bench.judging.accuse(bench.x, 11.0, is_sound=True)
    assert bench.x.suspicion is not None
    assert bench.x.suspicion.accusers == {ME, A}


def test_a_proven_answer_later_than_the_suspicion_acquits(bench: Bench) -> None:
    bench.tell(SUSPECT, accuser=A)
    bench.belief.handle_evidence(bench.x, 0, 12.0, is_proven=False)
    assert bench.x.reachability is SUSPECT, "it may be a recording"
    bench.belief.handle_evidence(bench.x, 0, 12.0, is_proven=True)
    assert bench.x.reachability is ALIVE
    bench.tell(SUSPECT, accuser=A, at=12.1)
    assert bench.x.reachability is ALIVE, "the same hearsay must not infect again"


def test_a_vouch_quells_hearsay_and_makes_own_accusers_wait_anew(bench: Bench) -> None:
    bench.tell(SUSPECT, accuser=A)
    bench.belief.handle_vouch(Vouch(X, 1, 0, B), 12.0)
    assert bench.x.reachability is ALIVE
    bench.judging.accuse(bench.x, 20.0, is_sound=True)
    bench.belief.handle_vouch(Vouch(X, 1, 0, B), 30.0)
    assert bench.x.reachability is SUSPECT
    assert bench.x.suspicion is not None
    assert bench.x.suspicion.started_at == bench.x.evidence_at == 30.0


@pytest.mark.parametrize(
    "vouch",
    [
        Vouch(X, 1, 0, X),
        Vouch(X, 1, 0, host_id(99)),
        Vouch(X, 2, 0, B),
        Vouch(X, 0, 9, B),
        Vouch(host_id(98), 1, 0, B),
    ],
)
def test_a_vouch_by_nobody_or_for_another_run_is_worth_nothing(bench: Bench, vouch: Vouch) -> None:
    bench.tell(SUSPECT, accuser=A)
    bench.belief.handle_vouch(vouch, 12.0)
    assert bench.x.reachability is SUSPECT


def test_own_accusation_while_hearing_nobody_is_told_to_nobody_until_somebody_is_heard(bench: Bench) -> None:
    bench.context.broadcasts.drop(X)
    num_before = len(bench.context.broadcasts)
    bench.judging.accuse(bench.x, 11.0, is_sound=False)
    assert bench.x.reachability is SUSPECT
    assert len(bench.context.broadcasts) == num_before
    bench.judging.accuse(bench.x, 20.0, is_sound=True)
    assert len(bench.context.broadcasts) == num_before + 1
    bench.judging.accuse(bench.x, 21.0, is_sound=True)
    assert len(bench.context.broadcasts) == num_before + 1


def test_left_is_final_for_its_epoch_whatever_is_said(bench: Bench) -> None:
    bench.tell(LEFT)
    bench.tell(ALIVE, incarnation=9, address=bench.x.address)
    bench.tell(FAILED, incarnation=9, accuser=A)
    bench.belief.handle_evidence(bench.x, 9, 11.0, is_proven=True)
    bench.belief.handle_vouch(Vouch(X, 1, 9, B), 11.0)
    assert bench.x.reachability is LEFT
    bench.tell(LEFT, incarnation=1)  # it raised its incarnation while it left
    assert (bench.x.reachability, bench.x.incarnation) == (LEFT, 0)
    bench.tell(ALIVE, epoch=2, address=bench.x.address)
    assert bench.x.reachability is ALIVE


def test_memberlist_311_a_stale_alive_is_answered_with_the_accusation_but_not_each_time(bench: Bench) -> None:
    bench.fail()
    bench.post.drain()
    for step in range(10):
        bench.tell(ALIVE, address=Address("10.0.0.99", 9), at=20.0 + step / 100)
    assert [to for _, to in bench.post.drain()] == [Address("10.0.0.99", 9)]
    assert bench.context.counters["notices/withheld"] == 9


def test_strangers_are_met_only_with_an_address(bench: Bench) -> None:
    bench.tell(ALIVE, host_id(60))
    bench.tell(SUSPECT, host_id(61), accuser=A)
    bench.tell(FAILED, host_id(62), accuser=A, address=Address("10.0.0.62", 1))
    bench.tell(LEFT, host_id(63))
    assert len(bench.context.table) == 4
    assert bench.context.counters["drops/unknown_member"] == 4


def test_serf_333_failed_members_told_in_a_sync_are_remembered_to_be_tried(bench: Bench) -> None:
    bench.tell(FAILED, host_id(62), accuser=host_id(99), address=Address("10.0.0.62", 1), is_sync=True)
    assert bench.context.table.num_failed == 1
    assert ("reclaim", None) in bench.context.agenda


def test_a_forgotten_member_leaves_nothing_behind(bench: Bench) -> None:
    bench.tell(FAILED, accuser=A)
    bench.belief.forget(bench.x)
    assert bench.context.table.get(X) is None
    passenger = bench.context.passenger
    assert isinstance(passenger, QuietPassenger)
    assert passenger.forgotten == [X]
