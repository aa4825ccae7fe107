from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from gpumesh.model import Address, Reachability
from gpumesh.swim.outline import MAX_BUCKETS, bucket, differing, num_buckets, outline
from gpumesh.swim.statement import Statement


def statements(num: int, seed: int = 1) -> list[Statement]:
    random = Random(seed)
    return [
        Statement(
            random.choice(list(Reachability)),
            str(UUID(int=random.getrandbits(128), version=4)),
            random.randint(1, 9),
            random.randint(0, 9),
            Address("10.0.0.1", 1 + number),
        )
        for number in range(num)
    ]


def test_outline_does_not_depend_on_the_order_of_what_is_held() -> None:
    held = statements(100)
    assert outline(held, 16) == outline(held[::-1], 16)


@pytest.mark.parametrize(
    "other",
    [
        {"epoch": 12},
        {"incarnation": 12},
        {"kind": Reachability.SUSPECT},
        {"address": Address("10.9.9.9", 1)},
    ],
)
def test_one_member_held_otherwise_shows_in_its_own_bucket_alone(other: dict[str, object]) -> None:
    held = statements(200)
    changed = {
        "kind": Reachability.ALIVE, "host_id": held[7].host_id, "epoch": 1, "incarnation": 1,
        "address": Address("10.0.0.1", 7),
    }  # fmt: skip
    first = [*held[:7], Statement(**changed), *held[8:]]  # type: ignore[arg-type]
    second = [*held[:7], Statement(**{**changed, **other}), *held[8:]]  # type: ignore[arg-type]
    assert differing(outline(first, 32), outline(second, 32)) == {bucket(held[7].host_id, 32)}


def test_accuser_and_address_of_the_gone_do_not_count_since_a_sync_settles_neither() -> None:
    host_id = statements(1)[0].host_id
    first = Statement(Reachability.FAILED, host_id, 1, 1, Address("10.0.0.1", 1), "one")
    second = Statement(Reachability.FAILED, host_id, 1, 1, Address("10.0.0.2", 2), "another")
    assert outline([first], 4) == outline([second], 4)


def test_number_of_buckets_is_a_power_of_two_and_bounded() -> None:
    found = [num_buckets(num) for num in range(5000)]
    assert all(num & (num - 1) == 0 and num > 0 for num in found)
    assert found == sorted(found)
    assert (found[0], found[32], found[4096]) == (1, 4, MAX_BUCKETS)
    assert num_buckets(10**6) == MAX_BUCKETS
