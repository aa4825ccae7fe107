from __future__ import annotations

from gpumesh.health.rising import MAX_COUNTERS, Rising


def test_a_rate_is_known_after_a_whole_window() -> None:
    rising = Rising(60.0, 5.0)
    rates = [rising.rate("a", 2 * second, float(second)) for second in range(0, 65, 5)]
    assert rates[:12] == [None] * 12
    assert rates[12] == 2.0


def test_only_the_last_window_counts() -> None:
    rising = Rising(60.0, 5.0)
    counts = [1000] * 13 + [1060] * 13
    rates = [rising.rate("a", count, 5.0 * look) for look, count in enumerate(counts)]
    assert rates[12] == 0.0
    assert rates[13] == 1.0
    assert rates[-1] == 0.0


def test_a_counter_that_fell_begins_again() -> None:
    rising = Rising(60.0, 5.0)
    for look in range(13):
        rising.rate("a", 1000 + look, 5.0 * look)
    assert rising.rate("a", 0, 65.0) is None
    assert rising.rate("a", 60, 125.0) == 1.0


def test_after_a_pause_nobody_knows_when_its_errors_came() -> None:
    rising = Rising(60.0, 5.0)
    rising.rate("a", 0, 0.0)
    assert rising.rate("a", 100_000, 181.0) is None


def test_a_long_window_keeps_few_samples_and_still_tells_a_rate() -> None:
    rising = Rising(3600.0, 5.0)
    rates = [rising.rate("a", look, 5.0 * look) for look in range(1500)]
    last = rates[-1]
    assert last is not None
    assert abs(last - 0.2) < 0.001
    (course,) = rising._courses.values()
    assert len(course.samples) <= 70


def test_looks_further_apart_than_the_window_give_a_rate_over_two_looks() -> None:
    rising = Rising(60.0, 300.0)
    rising.rate("a", 0, 0.0)
    assert rising.rate("a", 600, 300.0) == 2.0


def test_the_table_of_counters_is_bounded() -> None:
    rising = Rising(60.0, 5.0)
    for number in range(MAX_COUNTERS + 100):
        rising.rate(str(number), 0, 0.0)
    assert len(rising._courses) == MAX_COUNTERS
