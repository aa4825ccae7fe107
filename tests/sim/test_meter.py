from __future__ import annotations

from gpumesh.sim.meter import BASE_STEPS, STEPS_A_BYTE, STEPS_A_MEMBER, Meter, bound_of


def work(times: int) -> int:
    return sum(abs(number) for number in range(times))


def test_steps_are_counted_and_the_same_work_takes_the_same_steps() -> None:
    meter = Meter()
    result, first = meter.measure(work, 100)
    assert result == 4950
    assert first >= 200
    assert meter.measure(work, 100)[1] == first
    assert meter.measure(work, 200)[1] > 1.8 * first


def test_nothing_is_counted_between_calls_and_one_that_raises_ends_the_count() -> None:
    meter = Meter()
    _, alone = meter.measure(abs, 1)
    work(1000)
    try:
        meter.measure(int, "no number")
    except ValueError:
        work(1000)
    assert meter.measure(abs, 1)[1] == alone


def test_bound_grows_with_what_came_in_and_whom_the_host_knows_only() -> None:
    assert bound_of(0, 0) == BASE_STEPS
    assert bound_of(10, 3) == BASE_STEPS + 10 * STEPS_A_BYTE + 3 * STEPS_A_MEMBER
