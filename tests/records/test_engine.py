from __future__ import annotations

import itertools
import uuid
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumesh.errors import RejectedError
from gpumesh.records import bounds, codec
from gpumesh.records.codec import make_entry
from gpumesh.records.engine import Records
from gpumesh.records.values import encode_value

A, B, C = (str(uuid.UUID(int=number)) for number in (1, 2, 3))


BUCKETS = 32


def records(host_id: str = A, epoch: int = 1) -> Records:
    return Records(host_id=host_id, epoch=epoch)


def update(
    host_id: str = B, epoch: int = 1, version: int = 1, name: str = "health", value: object = 1
) -> bytes:
    encoded = None if value is None else encode_value(value)
    return codec.encode_update(make_entry(host_id, name, epoch=epoch, version=version, encoded=encoded))


def sync(opener: Records, acceptor: Records, now: float = 0.0) -> None:
    """Push and pull, as membership's stream does."""
    outlines = opener.outline_to_send(BUCKETS), acceptor.outline_to_send(BUCKETS)
    for page in opener.pages_to_send(acceptor.summary_to_send(outlines[0])):
        acceptor.handle_page(page, now)
    for page in acceptor.pages_to_send(opener.summary_to_send(outlines[1])):
        opener.handle_page(page, now)


def gossip(source: Records, target: Records, now: float = 0.0) -> None:
    for _ in range(50):
        for item in source.updates_to_send(1200, 2):
            target.handle_update(item, now)


def is_same(one: Records, other: Records) -> bool:
    return codec.decode_digest(one.digest_to_send(0.0)).fleet_hash == (
        codec.decode_digest(other.digest_to_send(0.0)).fleet_hash
    )


def test_versions_rise_strictly_and_an_equal_value_is_no_change() -> None:
    mine = records()
    assert mine.publish("host", {"name": "a"})
    assert not mine.publish("host", {"name": "a"})
    assert mine.publish("health", 1)
    assert mine.publish("host", {"name": "b"})
    versions = {name: entry.version for name, entry in mine.entries(A).items()}
    assert versions == {"host": 3, "health": 2}


def test_newer_version_wins_and_older_never_overwrites() -> None:
    mine = records()
    mine.handle_update(update(version=5, value="new"), 0.0)
    mine.handle_update(update(version=4, value="old"), 0.0)
    assert mine.value(B, "health") == "new"
    assert mine.counters["stale"] == 1


def test_newer_epoch_drops_what_the_older_said() -> None:
    mine = records()
    mine.handle_update(update(epoch=1, version=50, name="host"), 0.0)
    mine.handle_update(update(epoch=2, version=1, name="health", value=7), 0.0)
    assert set(mine.entries(B)) == {"health"}
    mine.handle_update(update(epoch=1, version=60, name="host"), 0.0)
    assert set(mine.entries(B)) == {"health"}
    assert mine.counters["drops/older_epoch"] == 1
    changed = set()
    while (change := mine.next_change()) is not None:
        changed.add(change.name)
    assert changed == {"host", "health"}


def test_withdrawn_entry_travels_as_tombstone() -> None:
    mine, other = records(A), records(B)
    mine.publish("gpu/x", 1)
    gossip(mine, other)
    assert other.value(A, "gpu/x") == 1
    assert mine.withdraw("gpu/x")
    assert not mine.withdraw("gpu/x")
    gossip(mine, other)
    assert other.value(A, "gpu/x") is None
    other.handle_update(update(host_id=A, version=1, name="gpu/x"), 0.0)
    assert other.value(A, "gpu/x") is None


def test_only_the_owner_writes_its_record() -> None:
    mine = records()
    mine.publish("health", "mine")
    mine.handle_update(update(host_id=A, version=1, value="forged"), 0.0)
    assert mine.value(A, "health") == "mine"


def test_owner_outbids_its_own_words_from_a_forgotten_life() -> None:
    mine, other = records(A), records(B)
    mine.publish("health", "now")
    stale = update(host_id=A, version=40, value="before the disk was lost")
    other.handle_update(stale, 0.0)
    mine.handle_update(stale, 0.0)
    gossip(mine, other)
    assert other.value(A, "health") == "now"


def test_outbidding_is_rate_limited() -> None:
    mine = records()
    mine.publish("health", "now")
    mine.handle_update(update(host_id=A, version=40), 10.0)
    mine.handle_update(update(host_id=A, version=80), 11.0)
    assert mine.entries(A)["health"].version == 41


def test_nan_dies_at_the_edge() -> None:
    mine = records()
    hostile = codec.encode_update(
        make_entry(B, "health", epoch=1, version=1, encoded=b"\xcb\x7f\xf8" + bytes(6))
    )
    mine.handle_update(hostile, 0.0)
    assert mine.entries(B) == {}
    assert mine.counters["drops/value_out_of_range"] == 1
    assert mine.updates_to_send(1200, 5) == []
    with pytest.raises(RejectedError):
        mine.publish("health", float("nan"))


@settings(max_examples=60)
@given(st.permutations(range(12)), st.integers(0, 11))
def test_any_order_and_repetition_gives_the_same_table(order: list[int], again: int) -> None:
    updates = [
        update(host, epoch, version, name, value=f"{epoch}.{version}")
        for host, (epoch, version), name in itertools.product(
            (B, C), ((1, 9), (2, 1), (2, 5)), ("host", "health")
        )
    ]
    straight, shuffled = records(), records()
    for item in updates:
        straight.handle_update(item, 0.0)
    for number in [*order, again]:
        shuffled.handle_update(updates[number], 0.0)
    assert is_same(straight, shuffled)
    assert straight.value(B, "health") == shuffled.value(B, "health") == "2.5"


def test_alertmanager_1412_an_entry_too_large_for_a_datagram_goes_by_stream_and_blocks_nothing() -> None:
    mine, other = records(A), records(B)
    mine.publish("health", 1)
    mine.publish("host", ["x" * 1500])  # the newest leads
    gossip(mine, other)
    assert (other.value(A, "host"), other.value(A, "health")) == (None, 1)
    other.handle_digest(A, mine.digest_to_send(0.0), now=10.0)
    assert other.wants_sync_with(11.0) == A
    sync(other, mine)
    assert other.value(A, "host") == ["x" * 1500]


def test_news_that_all_peers_hold_is_gossiped_no_more_and_who_lacks_it_gets_it_still() -> None:
    mine, peer, lacking = records(A), records(B), records(C)
    mine.publish("host", {"name": "a"})
    peer.publish("host", {"name": "b"})
    sync(mine, peer)
    assert mine.has_updates()
    for second in range(8):
        mine.handle_digest(B, peer.digest_to_send(float(second)), float(second))
    assert not mine.has_updates()
    assert mine.updates_to_send(1200, 3) == []
    lacking.handle_digest(A, mine.digest_to_send(8.0), 8.0)
    assert lacking.wants_sync_with(60.0) == A
    sync(lacking, mine)
    assert lacking.value(A, "host") == {"name": "a"}


def test_lasting_difference_of_the_own_record_asks_for_a_sync_soon() -> None:
    mine, other = records(A), records(B)
    mine.publish("host", 1)
    gossip(mine, other)
    mine.publish("health", 2)
    other.handle_digest(A, mine.digest_to_send(0.0), now=10.0)
    assert other.wants_sync_with(10.0) is None, "gossip gets a moment first"
    assert other.wants_sync_with(11.0) == A


def test_difference_that_gossip_closed_asks_for_nothing() -> None:
    mine, other = records(A), records(B)
    mine.publish("host", 1)
    gossip(mine, other)
    mine.publish("health", 2)
    other.handle_digest(A, mine.digest_to_send(0.0), now=10.0)
    gossip(mine, other)
    assert other.wants_sync_with(30.0) is None


def test_lasting_difference_about_others_asks_for_a_sync() -> None:
    mine, other = records(A), records(B)
    mine.handle_update(update(C), 0.0)
    other.handle_digest(A, mine.digest_to_send(0.0), now=10.0)
    assert other.wants_sync_with(11.0) is None
    assert other.wants_sync_with(12.0) == A
    sync(other, mine)
    assert is_same(mine, other)


def test_syncs_that_bring_nothing_come_ever_more_rarely() -> None:
    mine, other = records(A), records(B)
    mine.handle_update(update(C), 0.0)
    asked = []
    for second in range(400):
        other.handle_digest(A, mine.digest_to_send(0.0), now=float(second))
        if other.wants_sync_with(float(second)):
            asked.append(second)
    gaps = [after - before for before, after in itertools.pairwise(asked)]
    assert gaps == sorted(gaps)
    assert max(gaps) >= 60
    assert len(asked) < 12


def test_sync_brings_both_sides_together_and_then_sends_nothing() -> None:
    random = Random(5)
    one, other = records(A), records(B)
    for number in range(300):
        side = random.choice([one, other])
        host = str(uuid.UUID(int=100 + number % 90))
        side.handle_update(update(host, epoch=random.randint(1, 3), version=random.randint(1, 9)), 0.0)
    sync(one, other)
    assert is_same(one, other)
    assert one.pages_to_send(other.summary_to_send()) == []
    assert other.summary_to_send(one.outline_to_send(BUCKETS)) == b""


def test_memberlist_243_one_new_entry_costs_a_summary_of_its_own_bucket() -> None:
    one, other = records(A), records(B)
    for number in range(1, 256):
        for side in (one, other):
            side.handle_update(update(str(uuid.UUID(int=number << 120))), 0.0)
    one.handle_update(update(str(uuid.UUID(int=(9 << 120) + 1))), 0.0)
    summary = codec.decode_summary(other.summary_to_send(one.outline_to_send(BUCKETS)))
    assert {host[0] for host in summary.rows} == {byte for byte in range(1, 256) if byte % BUCKETS == 9}
    sync(one, other)
    assert is_same(one, other)


def test_gap_below_a_newer_version_is_repaired() -> None:
    one, other = records(A), records(B)
    for version, name in ((1, "host"), (2, "health")):
        one.handle_update(update(C, version=version, name=name), 0.0)
    other.handle_update(update(C, version=2, name="health"), 0.0)
    sync(other, one)
    assert set(other.entries(C)) == {"host", "health"}


def test_table_too_large_for_one_summary_is_compared_in_turns() -> None:
    one, other = records(A), records(B)
    for number in range(4000):
        one.handle_update(update(str(uuid.UUID(int=(number + 10) << 96))), 0.0)
    assert len(one.summary_to_send()) <= bounds.MAX_PAGE_BYTES
    for _ in range(10):
        sync(other, one)
    assert is_same(one, other)
    missing = str(uuid.UUID(int=4500 << 96))
    other.handle_update(update(missing), 0.0)
    for _ in range(4):
        sync(one, other)
    assert one.value(missing, "health") == 1


def test_forgotten_host_is_not_brought_back_until_it_is_met_again() -> None:
    mine, other = records(A), records(B)
    for side in (mine, other):
        side.handle_update(update(C), 0.0)
    mine.forget(C)
    sync(mine, other)
    assert mine.entries(C) == {}
    assert mine.counters["drops/forgotten"] > 0
    mine.welcome(C)
    sync(mine, other)
    assert mine.value(C, "health") == 1


def test_forgotten_host_in_a_new_run_is_taken_at_once() -> None:
    mine = records()
    mine.handle_update(update(C, epoch=4), 0.0)
    mine.forget(C)
    mine.handle_update(update(C, epoch=5), 0.0)
    assert mine.epoch(C) == 5


def test_hosts_entries_and_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = records()
    for number in range(bounds.MAX_ENTRIES + 5):
        mine.handle_update(update(version=number + 1, name=f"gpu/{number}"), 0.0)
    assert len(mine.entries(B)) == bounds.MAX_ENTRIES
    assert mine.counters["drops/entries_full"] == 5
    for number in range(100):
        mine.handle_update(update(C, version=number + 1, name=f"gpu/{number}", value=["x" * 2000] * 3), 0.0)
    assert mine.counters["drops/record_full"] > 0
    assert sum(len(entry.encoded or b"") for entry in mine.entries(C).values()) <= bounds.MAX_RECORD_BYTES
    monkeypatch.setattr("gpumesh.records.store.MAX_HOSTS", 3)
    for number in range(5):
        mine.handle_update(update(str(uuid.UUID(int=50 + number))), 0.0)
    assert mine.sizes["hosts"] == 3
    assert mine.counters["drops/hosts_full"] == 4


@given(st.binary(max_size=200))
def test_hostile_bytes_change_nothing_and_are_counted(data: bytes) -> None:
    mine = records()
    before = mine.digest_to_send(0.0)
    mine.handle_update(data, 0.0)
    mine.handle_page(data, 0.0)
    mine.handle_digest(B, data, 0.0)
    mine.pages_to_send(data)
    if mine.counters["applied"] == 0:
        assert mine.digest_to_send(0.0) == before
    assert sum(mine.counters.values()) > 0


def test_direct_contacts_are_told_once() -> None:
    mine, other = records(A), records(B)
    mine.handle_digest(B, other.digest_to_send(0.0), 0.0)
    mine.handle_digest(B, other.digest_to_send(0.0), 0.0)
    assert mine.contacts_since() == [B]
    assert mine.contacts_since() == []
