from __future__ import annotations

import pytest

from gpumesh.swim.suspicion import Suspicion


def suspicion(wanted: int = 2) -> Suspicion:
    return Suspicion("a", 100.0, (4.0, 24.0), wanted)


def test_a_lone_accuser_waits_longest() -> None:
    assert suspicion().deadline_at == 124.0


def test_independent_accusers_bring_the_verdict_forward() -> None:
    doubted = suspicion()
    assert doubted.confirm("b")
    assert 104.0 < doubted.deadline_at < 124.0
    assert doubted.confirm("c")
    assert doubted.deadline_at == pytest.approx(104.0)


def test_the_same_accuser_counts_once() -> None:
    doubted = suspicion()
    assert not doubted.confirm("a")
    assert doubted.deadline_at == 124.0


def test_confirmations_beyond_those_wanted_are_not_passed_on() -> None:
    doubted = suspicion()
    assert [doubted.confirm(accuser) for accuser in "bcde"] == [True, True, False, False]


def test_a_stall_moves_the_whole_suspicion() -> None:
    doubted = suspicion()
    doubted.postpone(10.0)
    assert (doubted.first_at, doubted.deadline_at) == (110.0, 134.0)


def test_a_restart_gives_a_fresh_wait_but_remembers_the_beginning() -> None:
    doubted = suspicion()
    doubted.restart(120.0)
    assert (doubted.first_at, doubted.deadline_at) == (100.0, 144.0)
