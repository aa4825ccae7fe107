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


def test_freed_memory_is_given_back_to_the_kernel_once_garbage_is_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept_bytes: list[int] = []
    num_frozen: list[int] = []

    class Glibc:
        @staticmethod
        def malloc_trim(keep_bytes: int) -> int:
            kept_bytes.append(keep_bytes)
            num_frozen.append(gc.get_freeze_count())
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Glibc())
    before = gc.get_freeze_count()
    settle_memory()
    assert kept_bytes == [0], "nothing is held back"
    assert num_frozen[0] > before + 1000, "what the collection freed is among it"


def test_a_c_library_that_cannot_give_memory_back_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Musl:
        pass

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Musl())
    settle_memory()
    assert gc.get_freeze_count()
