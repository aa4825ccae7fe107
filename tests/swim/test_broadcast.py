from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpumesh.swim.broadcast import BroadcastQueue


def piece(text: str) -> bytes:
    return text.encode().ljust(30, b".")


def names(taken: list[bytes]) -> list[str]:
    return [data.decode().rstrip(".") for data in taken]


def test_the_least_sent_goes_first_and_among_equals_the_newest() -> None:
    queue = BroadcastQueue(10)
    for name in ("a", "b"):
        queue.put(name, name, piece(name))
    assert names(queue.take(1000, 3)) == ["b", "a"]
    queue.put("c", "c", piece("c"))
    assert names(queue.take(30, 3)) == ["c"]


def test_a_piece_is_sent_no_more_than_its_limit() -> None:
    queue = BroadcastQueue(10)
    queue.put("a", "a", piece("a"))
    assert [names(queue.take(1000, 3)) for _ in range(4)] == [["a"], ["a"], ["a"], []]
    assert len(queue) == 0


def test_a_newer_statement_takes_the_place_of_older_ones_about_the_same_subject() -> None:
    queue = BroadcastQueue(10)
    queue.put("x", "suspect by a", piece("suspect by a"))
    queue.put("x", "suspect by b", piece("suspect by b"), keeps_others=True)
    assert len(queue) == 2
    queue.put("x", "alive", piece("alive"))
    assert names(queue.take(1000, 3)) == ["alive"]


def test_what_concerns_the_receiver_leads_even_when_sent_often() -> None:
    queue = BroadcastQueue(10)
    queue.put("x", "x", piece("x"))
    queue.take(1000, 9)
    for name in "abc":
        queue.put(name, name, piece(name))
    assert names(queue.take(60, 9, "x")) == ["x", "c"]


def test_a_full_queue_gives_up_what_was_sent_most_often() -> None:
    queue = BroadcastQueue(3)
    for name in "abc":
        queue.put(name, name, piece(name))
    queue.take(30, 9)  # c, the newest, once
    queue.put("d", "d", piece("d"))
    assert queue.num_dropped == 1
    assert sorted(names(queue.take(1000, 9))) == ["a", "b", "d"]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.booleans(), st.integers(10, 80)), max_size=120),
    st.integers(40, 500),
)
def test_queue_and_datagram_stay_within_their_bounds(puts: list[tuple[int, bool, int]], room: int) -> None:
    queue = BroadcastQueue(16)
    for number, (subject, keeps, size) in enumerate(puts):
        queue.put(str(subject), number, bytes(size), keeps_others=keeps)
        assert len(queue) <= 16
        assert sum(map(len, queue.take(room, 4))) <= room
    while queue.take(10_000, 4):
        pass
    assert len(queue) == 0
    assert queue._by_subject == {}
    assert queue._tiers == {}
