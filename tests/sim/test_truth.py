from __future__ import annotations

from gpumesh.sim.truth import Ending, Truth


def test_only_the_first_word_on_how_a_run_ended_counts() -> None:
    truth = Truth()
    truth.begin(0, "a", 1, 0.0)
    truth.end(0, Ending.LEFT, 5.0)
    truth.end(0, Ending.CRASHED, 9.0)
    life = truth.life("a", 1)
    assert life is not None
    assert (life.ending, life.ended_at) == (Ending.LEFT, 5.0)
    truth.begin(0, "a", 2, 10.0)
    latest = truth.latest(0)
    assert latest is not None
    assert (latest.epoch, latest.ended_at) == (2, None)


def test_impairment_is_excused_a_little_longer_than_it_lasts() -> None:
    truth = Truth()
    assert not truth.is_impaired(0, 0.0)
    truth.impair([0], 50.0)
    assert truth.is_impaired(0, 1e6)
    truth.impair([0], 60.0)
    assert truth.impaired_since(0) == 50.0
    truth.repair([0], 100.0)
    assert truth.is_impaired(0, 100.0 + truth.GRACE_S - 1)
    assert not truth.is_impaired(0, 100.0 + truth.GRACE_S + 1)


def test_separation_parts_sides_only_and_is_remembered() -> None:
    truth = Truth()
    truth.separate((frozenset({0, 1}), frozenset({2})), 10.0)
    assert truth.were_separated(0, 2, 50.0)
    assert not truth.were_separated(0, 1, 50.0)
    truth.join(60.0)
    assert truth.were_separated(0, 2, 59.0)
    assert not truth.were_separated(0, 2, 61.0)
    assert truth.was_partitioned(59.0)
    assert not truth.was_partitioned(61.0)


def test_host_is_impaired_until_the_last_of_its_causes_is_gone() -> None:
    truth = Truth()
    truth.impair([0], 0.0, "stopped")
    truth.impair([0], 5.0, "bad link")
    truth.repair([0], 10.0, "stopped")
    assert truth.is_impaired(0, 100.0)
    assert truth.impaired_since(0) == 0.0
    truth.repair([0], 100.0, "bad link")
    assert not truth.is_impaired(0, 100.0 + truth.GRACE_S + 1)
