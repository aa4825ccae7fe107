from __future__ import annotations

from dataclasses import fields
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpumesh.health.devices import DeviceInfo, Process, Reading
from gpumesh.health.plausible import keep_plausible, keep_plausible_memory

ALL_BITS = (1 << 64) - 1
NUMBERS = [
    item.name
    for item in fields(Reading)
    if item.type in {"int | None", "float | None"} and item.name != "clocks_event_reasons"
]


def test_all_bits_set_is_no_value_of_any_number() -> None:
    kept, num_dropped = keep_plausible(Reading(**dict.fromkeys(NUMBERS, ALL_BITS)))  # type: ignore[arg-type]
    assert kept == Reading()
    assert num_dropped == len(NUMBERS)


def test_a_bit_mask_may_have_any_bits() -> None:
    assert keep_plausible(Reading(clocks_event_reasons=ALL_BITS)) == (
        Reading(clocks_event_reasons=ALL_BITS),
        0,
    )


@given(temperature_c=st.integers(), fan_percent=st.integers(), power_w=st.floats(allow_nan=True))
def test_nothing_is_clipped_only_dropped(temperature_c: int, fan_percent: int, power_w: float) -> None:
    given_reading = Reading(temperature_c=temperature_c, fan_percent=fan_percent, power_w=power_w)
    kept, num_dropped = keep_plausible(given_reading)
    assert kept.temperature_c in {None, temperature_c}
    assert kept.fan_percent in {None, fan_percent}
    assert kept.power_w is None or 0 <= kept.power_w <= 5000
    assert num_dropped == [kept.temperature_c, kept.fan_percent, kept.power_w].count(None)


def test_more_memory_used_than_the_card_has_is_dropped() -> None:
    reading = Reading(memory_used_bytes=9, memory_free_bytes=3, memory_reserved_bytes=None)
    assert keep_plausible_memory(reading, 8) == (Reading(memory_free_bytes=3), 1)
    assert keep_plausible_memory(reading, None) == (reading, 0)


def test_a_process_that_holds_more_than_the_card_has_stays_and_what_it_holds_is_not_known() -> None:
    processes = tuple(Process(pid, "compute", held) for pid, held in ((1, 512), (2, 2048), (3, None)))
    kept, num_dropped = keep_plausible_memory(Reading(processes=processes), 1024)
    assert kept.processes is not None
    assert [(item.pid, item.memory_bytes) for item in kept.processes] == [(1, 512), (2, None), (3, None)]
    assert num_dropped == 1
    assert keep_plausible_memory(Reading(processes=processes), None) == (Reading(processes=processes), 0)


def test_absurd_limits_of_a_card_are_dropped_too() -> None:
    info = DeviceInfo(0, "GPU-1", "x", "", temperature_slowdown_c=65535, memory_total_bytes=0, pcie_gen_max=4)
    assert keep_plausible(info) == (DeviceInfo(0, "GPU-1", "x", "", pcie_gen_max=4), 2)


def test_every_number_of_what_a_card_is_has_bounds_too() -> None:
    numbers = [item.name for item in fields(DeviceInfo) if item.type in {"int | None", "float | None"}]
    absurd: dict[str, Any] = dict.fromkeys(numbers, -(1 << 40))
    kept, num_dropped = keep_plausible(DeviceInfo(0, "GPU-1", "a", "00000000:01:00.0", **absurd))
    assert kept == DeviceInfo(0, "GPU-1", "a", "00000000:01:00.0")
    assert num_dropped == len(numbers)
