"""The order of statements: what makes all views converge."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.errors import TransitionError
from gpumesh.model import Address, Reachability
from gpumesh.swim.member import Member
from gpumesh.swim.statement import TRANSITIONS, precedence

ALIVE, SUSPECT, FAILED, LEFT = Reachability
KEYS = st.tuples(st.sampled_from(Reachability), st.integers(0, 3), st.integers(0, 3))


def member() -> Member:
    return Member("00000000-0000-0000-0000-000000000001", Address("10.0.0.1", 1), 1, 0, 0.0)


@given(st.permutations(list(itertools.product(Reachability, range(2), range(2)))))
def test_statements_in_any_order_lead_to_the_same_belief(
    keys: list[tuple[Reachability, int, int]],
) -> None:
    best = keys[0]
    for key in keys:
        if precedence(*key) > precedence(*best):
            best = key
    assert best[:2] == (LEFT, 1)


@given(KEYS, KEYS)
def test_different_statements_tie_only_if_both_are_the_goodbye_of_one_run(
    one: tuple[Reachability, int, int], other: tuple[Reachability, int, int]
) -> None:
    is_same_goodbye = one[:2] == other[:2] and one[0] is LEFT
    assert (precedence(*one) == precedence(*other)) == (one == other or is_same_goodbye)


@pytest.mark.parametrize(
    ("greater", "lesser"),
    [
        ((ALIVE, 2, 0), (FAILED, 1, 9)),  # a newer run beats every word on an older one
        ((ALIVE, 2, 0), (LEFT, 1, 9)),
        ((LEFT, 1, 0), (FAILED, 1, 9)),  # a goodbye is final for its epoch
        ((ALIVE, 1, 1), (SUSPECT, 1, 0)),  # refutation
        ((ALIVE, 1, 1), (FAILED, 1, 0)),
        ((SUSPECT, 1, 0), (ALIVE, 1, 0)),
        ((FAILED, 1, 0), (SUSPECT, 1, 0)),
    ],
)
def test_precedence(greater: tuple[Reachability, int, int], lesser: tuple[Reachability, int, int]) -> None:
    assert precedence(*greater) > precedence(*lesser)


def test_every_greater_statement_is_a_transition_of_the_table() -> None:
    for before, after in itertools.product(Reachability, Reachability):
        for incarnation in (0, 1):
            is_greater = precedence(after, 1, incarnation) > precedence(before, 1, 0)
            if is_greater:
                assert (before, after) in TRANSITIONS


@pytest.mark.parametrize("after", [ALIVE, SUSPECT, FAILED])
def test_left_is_not_left_again_within_its_epoch(after: Reachability) -> None:
    gone = member()
    gone.turn(LEFT, 1, 0, 1.0)
    with pytest.raises(TransitionError):
        gone.turn(after, 1, 5, 2.0)
    assert (gone.reachability, gone.incarnation, gone.since_at) == (LEFT, 0, 1.0)


def test_a_goodbye_that_was_said_before_a_refutation_lets_no_incarnation_fall() -> None:
    gone = member()
    gone.turn(ALIVE, 1, 5, 1.0)
    gone.turn(LEFT, 1, 2, 2.0)
    assert (gone.reachability, gone.incarnation) == (LEFT, 5)


def test_an_older_epoch_is_no_transition() -> None:
    renewed = member()
    renewed.turn(ALIVE, 3, 0, 1.0)
    with pytest.raises(TransitionError):
        renewed.turn(ALIVE, 2, 9, 2.0)
    assert renewed.epoch == 3


def test_since_moves_only_when_reachability_does() -> None:
    known = member()
    known.turn(SUSPECT, 1, 0, 5.0)
    known.turn(SUSPECT, 1, 1, 6.0)
    assert known.since_at == 5.0
    known.turn(ALIVE, 1, 2, 7.0)
    assert known.since_at == 7.0


def test_a_new_epoch_forgets_beat_session_and_answers() -> None:
    known = member()
    known.beat, known.session, known.answered_at = 9, b"s", 3.0
    known.turn(ALIVE, 2, 0, 4.0)
    assert (known.beat, known.session, known.answered_at) == (0, b"", float("-inf"))
