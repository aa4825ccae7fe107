from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Iterator

import pytest

from gpumesh.daemon.footprint import settle_memory


@pytest.fixture(autouse=True)
def _thaw() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_was_read_in_is_left_out_of_later_collections() -> None:
    before = gc.get_freeze_count()
    settle_memory()
    assert gc.get_freeze_count() > before + 1000


def test_garbage_is_collected_before_the_rest_counts_as_lasting() -> None:
    class Knot:
        pass

    knot = Knot()
    knot.itself = knot  # type: ignore[attr-defined]
    trace = weakref.ref(knot)
    gc.disable()
    try:
        del knot
        assert trace() is not None
        settle_memory()
    finally:
        gc.enable()
    assert trace() is None


def test_a_c_library_that_cannot_give_memory_back_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Musl:
        pass

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Musl())
    settle_memory()
    assert gc.get_freeze_count()
