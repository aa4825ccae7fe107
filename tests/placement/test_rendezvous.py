from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gpumesh.placement.rendezvous import MAX_WEIGHT, best_draw, order


@given(st.text(max_size=20), st.integers(1, MAX_WEIGHT - 1))
def test_more_weight_never_draws_worse(key: str, weight: int) -> None:
    assert best_draw(key, "host", weight) <= best_draw(key, "host", weight + 1)


def test_weight_is_capped_and_at_least_one() -> None:
    assert best_draw("k", "h", 10**9) == best_draw("k", "h", MAX_WEIGHT)
    assert best_draw("k", "h", 0) == best_draw("k", "h", 1)


def test_order_is_fixed_for_ever() -> None:
    # Golden: hosts of different versions must agree, so a change of this order is a change of the protocol.
    weights = [("a", 1), ("b", 2), ("c", 8), ("d", 9), ("e", 64)]
    assert order("job-1", weights) == ["e", "c", "d", "b", "a"]


def test_key_and_host_do_not_run_into_each_other() -> None:
    assert best_draw("ab", "c", 1) != best_draw("a", "bc", 1)


def test_any_text_is_a_key() -> None:
    assert order("\ud800", [("a", 1)]) == ["a"]


def test_share_of_firsts_follows_the_weights() -> None:
    weights = [("a", 1), ("b", 3), ("c", 10), ("d", 20)]
    firsts = Counter(order(f"key-{number}", weights)[0] for number in range(6800))
    for host_id, weight in weights:
        expected = 200 * weight
        assert abs(firsts[host_id] - expected) < 5 * expected**0.5
