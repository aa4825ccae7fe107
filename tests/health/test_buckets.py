from __future__ import annotations

from gpumesh.health.buckets import MAX_KEYS, NUM_BUCKETS, Buckets


def test_a_minute_counts_once_however_many_looks_of_it_hit() -> None:
    buckets = Buckets(5.0)
    assert [buckets.num_hit("a", float(second), is_hit=True) for second in (0, 5, 59, 60)] == [1, 1, 1, 2]


def test_a_look_that_shows_nothing_takes_no_hit_back_before_ten_minutes() -> None:
    buckets = Buckets(5.0)
    buckets.num_hit("a", 0.0, is_hit=True)
    assert buckets.num_hit("a", 599.0, is_hit=False) == 1
    assert buckets.num_hit("a", 600.0, is_hit=False) == 0


def test_keys_are_counted_by_themselves() -> None:
    buckets = Buckets(5.0)
    buckets.num_hit("a", 0.0, is_hit=True)
    assert buckets.num_hit("b", 0.0, is_hit=False) == 0
    assert buckets.num_hit("a", 60.0, is_hit=True) == 2


def test_with_looks_further_apart_than_a_minute_ten_buckets_can_be_filled() -> None:
    buckets = Buckets(300.0)
    counts = [buckets.num_hit("a", 300.0 * look, is_hit=True) for look in range(12)]
    assert counts == [*range(1, 11), NUM_BUCKETS, NUM_BUCKETS]
    assert buckets.words(6) == "in 6 of 10 parts of the last 50 min"


def test_past_the_bound_the_key_hit_least_recently_goes() -> None:
    buckets = Buckets(5.0)
    for number in range(MAX_KEYS):
        buckets.num_hit(str(number), 0.0, is_hit=True)
    buckets.num_hit("0", 60.0, is_hit=True)
    buckets.num_hit("one more", 60.0, is_hit=True)
    assert len(buckets._hits) == MAX_KEYS
    assert buckets.num_hit("0", 60.0, is_hit=False) == 2
    assert buckets.num_hit("1", 60.0, is_hit=False) == 0


def test_keys_without_a_hit_take_no_room() -> None:
    buckets = Buckets(5.0)
    buckets.num_hit("a", 0.0, is_hit=True)
    buckets.num_hit("a", 600.0, is_hit=False)
    buckets.num_hit("b", 600.0, is_hit=False)
    assert buckets._hits == {}
