"""Each store of the records is filled beyond its limit."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from gpumesh.records import bounds, clocks, differences, engine, gossip, store
from gpumesh.records.codec import Digest, encode_digest, encode_update, make_entry
from gpumesh.records.engine import Records
from gpumesh.records.values import encode_value

SMALL = {
    "MAX_HOSTS": 5,
    "MAX_ENTRIES": 4,
    "MAX_QUEUED": 10,
    "MAX_DIFFERENCES": 5,
    "MAX_FORGOTTEN": 5,
    "MAX_SEEN": 5,
    "MAX_PEERS": 5,
}


def name(number: int) -> str:
    return str(uuid.UUID(int=number + 1))


def tell(records: Records, number: int, entry: str = "health", version: int = 1, value: object = 1) -> None:
    encoded = None if value is None else encode_value(value)
    made = make_entry(name(number), entry, epoch=1, version=version, encoded=encoded)
    records.handle_update(encode_update(made), 0.0)


def tell_all(records: Records) -> None:
    for number in range(1, 30):
        for entry in range(8):
            tell(records, number, f"gpu/{entry}", entry + 1)


def bury_all(records: Records) -> None:
    for number in range(1, 30):
        for entry in range(8):
            tell(records, number, f"gpu/{entry}", entry + 1, None)


def differ(records: Records) -> None:
    for number in range(1, 30):
        records.handle_digest(name(number), encode_digest(Digest(1, 1, 7, 9)), 0.0)


def ask(records: Records) -> None:
    for number in range(1, 30):
        records.handle_digest(name(number), encode_digest(Digest(1, 1, 7, 9)), 2.0 * number)
        records.wants_sync_with(2.0 * number + 1.0)


def forget(records: Records) -> None:
    for number in range(1, 30):
        tell(records, number)
        records.forget(name(number))
        while records.next_change() is not None:
            pass  # whoever drives it drains it after each call


def hear_clocks(records: Records) -> None:
    for number in range(1, 30):
        digest = encode_digest(Digest(1, 1, 7, 9, unix_ms=1_700_000_000_000))
        records.handle_digest(name(number), digest, 0.0)


FILLERS: dict[str, Callable[[Records], None]] = {
    "hosts": tell_all,
    "gossip": tell_all,
    "entries": tell_all,
    "changes": tell_all,
    "tombstones": bury_all,
    "differences": differ,
    "asks": ask,
    "forgotten": forget,
    "contacts": differ,
    "seen": tell_all,
    "clocks": hear_clocks,
}


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> Records:
    for module in (bounds, clocks, differences, engine, gossip, store):
        for bound, value in SMALL.items():
            if hasattr(module, bound):
                monkeypatch.setattr(module, bound, value)
    return Records(host_id=name(0), epoch=1)


def test_every_store_is_filled_here(records: Records) -> None:
    assert records.sizes.keys() == records.limits.keys() == FILLERS.keys()


@pytest.mark.parametrize("store_name", FILLERS)
def test_a_store_takes_no_more_than_its_limit(records: Records, store_name: str) -> None:
    FILLERS[store_name](records)
    assert records.sizes[store_name] == records.limits[store_name], "it is full, and not more than full"
    assert all(size <= records.limits[other] for other, size in records.sizes.items())


def test_what_is_counted_along_is_what_is_there(records: Records) -> None:
    for number in range(1, 5):
        for version, value in enumerate((1, None, 2, None), 1):
            tell(records, number, "health", version, value)
            tell(records, number, f"gpu/{version}", version + 10, value)
    records.forget(name(2))
    held = [entry for host in records.hosts() for entry in records.entries(host).values()]
    assert records.sizes["entries"] == len(held) > 0
    assert records.sizes["tombstones"] == sum(entry.encoded is None for entry in held) > 0


def test_a_newer_run_takes_the_tombstones_of_the_older_with_it(records: Records) -> None:
    tell(records, 1, value=None)
    assert records.sizes["tombstones"] == 1
    made = make_entry(name(1), "host", epoch=2, version=1, encoded=encode_value(1))
    records.handle_update(encode_update(made), 0.0)
    assert (records.sizes["tombstones"], records.sizes["entries"]) == (0, 1)
