from __future__ import annotations

import gc
from typing import Any

from gpumesh.sim.meter import (
    BASE_STEPS,
    INPUTS,
    STEPS_A_BYTE,
    STEPS_A_ROW,
    STEPS_A_SYNCED_MEMBER,
    STEPS_AN_ADDRESS,
    Meter,
    bound_of,
)


def work(times: int) -> int:
    return sum(abs(number) for number in range(times))


def test_steps_are_counted_and_the_same_work_takes_the_same_steps() -> None:
    meter = Meter()
    result, first = meter.measure(work, 100)
    assert result == 4950
    assert first >= 200
    assert meter.measure(work, 100)[1] == first
    assert meter.measure(work, 200)[1] > 1.8 * first


def test_a_garbage_collection_during_a_call_is_not_counted_as_the_calls_own() -> None:
    def allocate(times: int) -> int:
        return len([[number] for number in range(times)])

    def on_collection(phase: str, info: dict[str, Any]) -> None:
        work(10)

    meter = Meter()
    _, alone = meter.measure(allocate, 100)
    thresholds = gc.get_threshold()
    gc.callbacks.append(on_collection)
    gc.set_threshold(1)
    try:
        assert meter.measure(allocate, 100)[1] == alone
        assert gc.isenabled()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(on_collection)


def test_nothing_is_counted_between_calls_and_one_that_raises_ends_the_count() -> None:
    meter = Meter()
    _, alone = meter.measure(abs, 1)
    work(1000)
    try:
        meter.measure(int, "no number")
    except ValueError:
        work(1000)
    assert meter.measure(abs, 1)[1] == alone


def test_bound_grows_with_what_came_in_and_with_the_members_only_where_all_are_looked_at() -> None:
    assert all(bound_of(name, 0, 0) == BASE_STEPS for name in INPUTS)
    assert bound_of("handle_datagram", 10, 3) == BASE_STEPS + 10 * STEPS_A_BYTE
    assert bound_of("seed", 10, 3) == BASE_STEPS + 10 * STEPS_AN_ADDRESS
    assert bound_of("handle_timer", 0, 3) == BASE_STEPS + 3 * STEPS_A_ROW
    assert bound_of("handle_stream_data", 10, 3) == BASE_STEPS + 10 * STEPS_A_BYTE + 3 * STEPS_A_SYNCED_MEMBER
    grows = {name for name in INPUTS if bound_of(name, 0, 1) > BASE_STEPS}
    assert grows == {"handle_timer", "handle_stream_opened", "handle_stream_data"}
