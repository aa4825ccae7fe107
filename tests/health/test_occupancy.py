from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpumesh.health.occupancy import FreeMemory, is_busy
from tests.health.builders import busy

GIB = 1 << 30


def test_an_idle_card_with_reserved_memory_is_free() -> None:
    """gpustat#141: an idle card shown with hundreds of MB in use; who computes on it decides, not memory."""
    assert is_busy(()) is False
    assert FreeMemory().handle_reading(16 * GIB - 308 * (1 << 20), 16 * GIB) == 15 * GIB


def test_what_the_driver_cannot_list_is_unknown_never_free() -> None:
    assert is_busy(None) is None


def test_compute_is_busy_graphics_is_not() -> None:
    assert is_busy([busy(kind="compute")]) is True
    assert is_busy([busy(kind="graphics", name="/usr/bin/game")]) is False
    assert is_busy([busy(kind="compute+graphics", name="/usr/bin/game")]) is True


def test_a_compositor_that_the_driver_lists_as_compute_does_not_make_a_workstation_busy() -> None:
    assert is_busy([busy(kind="compute+graphics", name="/usr/bin/kwin_wayland")]) is False
    assert is_busy([busy(kind="compute+graphics", name="/usr/bin/gnome-shell --wayland")]) is False


def test_a_process_without_a_name_counts() -> None:
    assert is_busy([busy(name=None)]) is True


def test_programs_that_the_owner_ignores_do_not_count() -> None:
    assert is_busy([busy(name="/opt/folding/FahCore")], ["FahCore"]) is False


def test_memory_that_a_card_does_not_tell_is_unknown() -> None:
    free = FreeMemory()
    assert free.handle_reading(None, 16 * GIB) is None
    assert free.handle_reading(8 * GIB, None) is None
    assert free.handle_reading(8 * GIB, 0) is None


def test_free_memory_falls_at_once_and_rises_past_the_boundary_only() -> None:
    free = FreeMemory()
    assert free.handle_reading(10 * GIB, 16 * GIB) == 10 * GIB
    assert free.handle_reading(10 * GIB - 1, 16 * GIB) == 9 * GIB
    assert free.handle_reading(10 * GIB + 1, 16 * GIB) == 9 * GIB
    assert free.handle_reading(10 * GIB + GIB // 4, 16 * GIB) == 10 * GIB


def test_memory_that_hovers_around_a_boundary_is_told_once() -> None:
    free = FreeMemory()
    told = {free.handle_reading(10 * GIB + noise, 16 * GIB) for noise in (-9, 5, -3, 100, -1, 7) * 20}
    assert told == {9 * GIB}


@given(st.lists(st.integers(0, 16 * GIB), min_size=1))
def test_free_memory_never_promises_what_is_not_there(readings: list[int]) -> None:
    free = FreeMemory()
    for reading in readings:
        told = free.handle_reading(reading, 16 * GIB)
        assert told is not None
        assert reading - 5 * GIB // 4 < told <= reading
        assert told % GIB == 0
