from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpumesh.swim.replay import WINDOW, ReplayWindow


def test_a_number_passes_once() -> None:
    window = ReplayWindow()
    assert window.is_fresh(5)
    window.accept(5)
    assert not window.is_fresh(5)
    assert window.is_fresh(4)
    assert window.is_fresh(6)


def test_what_has_left_the_window_is_refused() -> None:
    window = ReplayWindow()
    window.accept(0)
    window.accept(WINDOW + 10)
    assert not window.is_fresh(10)
    assert window.is_fresh(11)


@given(st.lists(st.integers(0, 3 * WINDOW), max_size=200))
def test_no_order_of_arrival_lets_a_number_pass_twice(counters: list[int]) -> None:
    window = ReplayWindow()
    accepted = []
    for counter in counters:
        if window.is_fresh(counter):
            window.accept(counter)
            accepted.append(counter)
    assert len(accepted) == len(set(accepted))
    newest = max(counters, default=0)
    assert {counter for counter in counters if newest - counter < WINDOW} <= set(accepted)
