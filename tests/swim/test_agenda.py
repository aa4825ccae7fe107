from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpumesh.swim.agenda import Agenda


def drain(agenda: Agenda, now: float) -> list[object]:
    taken = []
    while (key := agenda.take_due(now)) is not None:
        taken.append(key[1])
    return taken


def test_keys_come_due_in_order_and_once() -> None:
    agenda = Agenda()
    for number, at in enumerate([3.0, 1.0, 2.0]):
        agenda.set(("timer", number), at)
    assert drain(agenda, 2.5) == [1, 2]
    assert agenda.next_at() == 3.0
    assert len(agenda) == 1


def test_setting_a_key_again_moves_it() -> None:
    agenda = Agenda()
    agenda.set(("timer", 1), 1.0)
    agenda.set(("timer", 1), 5.0)
    assert drain(agenda, 4.0) == []
    agenda.set_earlier(("timer", 1), 9.0)
    assert agenda.next_at() == 5.0
    agenda.set_earlier(("timer", 1), 4.5)
    assert agenda.next_at() == 4.5


def test_cancelled_keys_never_come() -> None:
    agenda = Agenda()
    agenda.set(("timer", 1), 1.0)
    agenda.cancel(("timer", 1))
    agenda.cancel(("timer", 2))
    assert agenda.next_at() is None
    assert ("timer", 1) not in agenda


def test_only_judgements_are_put_off() -> None:
    agenda = Agenda()
    agenda.set(("probe", 1), 1.0)
    agenda.set(("round", 2), 1.0)
    agenda.postpone(10.0, "probe".__eq__)
    assert drain(agenda, 5.0) == [2]
    assert agenda.next_at() == 11.0


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0, 100)), max_size=300))
def test_the_heap_stays_proportional_to_the_keys(moves: list[tuple[int, float]]) -> None:
    agenda = Agenda()
    for number, at in moves:
        agenda.set(("timer", number), at)
    assert len(agenda._heap) <= 65 + 4 * len(agenda)
    assert len(drain(agenda, 100.0)) == len({number for number, _ in moves})


def test_a_key_can_be_asked_when_it_comes() -> None:
    agenda = Agenda()
    agenda.set(("timer", 1), 3.0)
    agenda.set(("timer", 1), 2.0)
    assert (agenda.at(("timer", 1)), agenda.at(("timer", 2))) == (2.0, None)
