from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from gpumesh.records.codec import id_text, make_entry
from gpumesh.swim.fields import id_from_wire

NUM_ROUNDS = 5
MOST_BYTES = 6 << 20
"""The caches' tables grow by steps of up to three million bytes; texts that were kept took 17 million."""


def ids(first: int) -> None:
    for number in range(first, first + 40_000):
        raw = number.to_bytes(16, "big")
        assert id_from_wire(raw) is id_text(raw)


def names(first: int) -> None:
    for number in range(first, first + 40_000):
        make_entry("a", f"gpu/GPU-{number}", epoch=1, version=1, encoded=None)


@pytest.mark.parametrize("say", [ids, names])
def test_ids_and_names_that_are_heard_once_are_not_kept_for_ever(say: Callable[[int], None]) -> None:
    say(0)
    tracemalloc.start()
    # As many as push the first ones out, and then as many as must not add to that.
    say(100_000)
    filled, _ = tracemalloc.get_traced_memory()
    for number in range(NUM_ROUNDS):
        say(200_000 + 100_000 * number)
    again, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert again - filled < MOST_BYTES


def test_the_same_id_is_the_same_string_wherever_it_comes_from() -> None:
    raw = bytes(range(16))
    assert id_from_wire(bytes(raw)) is id_text(bytes(bytearray(raw)))
