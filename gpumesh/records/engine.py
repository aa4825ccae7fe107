"""Anti-entropy of the hosts' records, sans-I/O: the passenger on membership's messages.

Each host writes named entries of its own record; changed entries ride on gossip, digests on pings show who is
behind, and what is larger or older goes by stream. Nothing here reads a clock or a socket.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Final

from gpumesh.errors import RejectedError
from gpumesh.records import codec
from gpumesh.records.bounds import (
    MAX_COUNTER,
    MAX_FORGOTTEN,
    MAX_GOSSIP_BYTES,
    MAX_HOSTS,
    MAX_PAGE_BYTES,
    MAX_SEEN,
)
from gpumesh.records.clocks import PeerClocks
from gpumesh.records.codec import Digest, Entry, Summary
from gpumesh.records.differences import Difference, Differences
from gpumesh.records.gossip import GossipQueue
from gpumesh.records.store import Record, Store
from gpumesh.records.stores import Stores
from gpumesh.records.values import Plain, encode_value, is_entry_name

_ECHO_REPEAT_S: Final = 5.0
CLOCK_SET_S: Final = 0.1
"""A wall clock that moves this much between two looks was set; one that is slewed moves less."""
_SUMMARY_ROW_BYTES: Final = 40
"""Upper bound: 18 for the id, 9 for the epoch, 9 for the hash, 1 for the row."""
_MAX_SUMMARY_ROWS: Final = (MAX_PAGE_BYTES - 64) // _SUMMARY_ROW_BYTES


@dataclass(frozen=True, slots=True)
class RecordChanged:
    """An entry of a host was set, replaced or deleted."""

    host_id: str
    name: str


class Records:
    """All hosts' records as this host holds them; implements membership's passenger by its methods."""

    def __init__(self, *, host_id: str, epoch: int) -> None:
        self._host_id = host_id
        self._epoch = epoch
        self._version = 0
        self._store = Store()
        self._queue = GossipQueue()
        self._differences = Differences()
        self._changed: dict[RecordChanged, None] = {}
        self._contacts: dict[str, None] = {}
        self._forgotten: dict[str, int] = {}
        self._seen: dict[int, None] = {}
        self._num_brought = 0
        self._num_brought_at_ask = 0
        self._echo_allowed_at = 0.0
        self._cursor = codec.FIRST_ID
        self.unix_offset = 0.0
        """Makes Unix time of ``now``, for the comparison of wall clocks alone."""
        self.clocks = PeerClocks()
        queues: dict[str, Sized] = {"gossip": self._queue, "forgotten": self._forgotten, "seen": self._seen}
        queues |= {"contacts": self._contacts, "changes": self._changed, "clocks": self.clocks}
        self._stores = Stores(self._store, self._differences, queues)
        self.counters: Counter[str] = Counter()
        """``drops/<reason>``, ``stale``, ``applied``, ``syncs/<why>``, ``not_gossiped``."""

    # The owner's side.

    def publish(self, name: str, value: Plain) -> bool:
        """Set an entry of one's own; tell whether that changed it. Errors: RejectedError beyond a bound."""
        if not is_entry_name(name):
            raise RejectedError("entry_name", name[:80])
        encoded = encode_value(value)
        held = self._own_entry(name)
        if held is not None and held.encoded == encoded:
            return False
        self._write(name, encoded)
        return True

    def withdraw(self, name: str) -> bool:
        """Delete an entry of one's own, leaving a tombstone; tell whether there was one."""
        held = self._own_entry(name)
        if held is None or held.encoded is None:
            return False
        self._write(name, None)
        return True

    def holds(self, name: str) -> bool:
        """Tell whether the own record has this entry."""
        held = self._own_entry(name)
        return held is not None and held.encoded is not None

    def begin_epoch(self, epoch: int) -> None:
        """Say everything again as the run ``epoch``, which must be later than the present one."""
        record = self._store.record(self._host_id)
        held = list(record.entries.values()) if record else []
        self._epoch = epoch
        for entry in held:
            if entry.encoded is not None:
                self._write(entry.name, entry.encoded)

    def _own_entry(self, name: str) -> Entry | None:
        record = self._store.record(self._host_id)
        return record.entries.get(name) if record else None

    def _write(self, name: str, encoded: bytes | None) -> None:
        entry = codec.make_entry(
            self._host_id, name, epoch=self._epoch, version=self._version + 1, encoded=encoded
        )
        self._store.put(entry)
        self._version += 1
        self._spread(entry)

    def _spread(self, entry: Entry) -> None:
        self._changed[RecordChanged(entry.host_id, entry.name)] = None
        update = codec.encode_update(entry)
        if len(update) > MAX_GOSSIP_BYTES:
            self._queue.discard((entry.host_id, entry.name))
            self.counters["not_gossiped"] += 1
        else:
            self._queue.put((entry.host_id, entry.name), update)

    # What others read.

    def value(self, host_id: str, name: str) -> Plain:
        """Return the value of an entry; None if it is not held or was deleted."""
        record = self._store.record(host_id)
        entry = record.entries.get(name) if record else None
        return entry.value if entry else None

    def entries(self, host_id: str) -> Mapping[str, Entry]:
        """Return what is held of a host, tombstones included."""
        record = self._store.record(host_id)
        return record.entries if record else {}

    def epoch(self, host_id: str) -> int | None:
        """Return which run of the host the held record is of; None if nothing is held."""
        record = self._store.record(host_id)
        return record.epoch if record else None

    def hosts(self) -> Iterator[str]:
        """Iterate over the ids of all hosts of which something is held."""
        return (host_id for host_id, _ in self._store.records())

    def next_change(self) -> RecordChanged | None:
        """Return the next changed entry, oldest first; what changed twice since is told once."""
        if not self._changed:
            return None
        change = next(iter(self._changed))
        del self._changed[change]
        return change

    def contacts_since(self) -> list[str]:
        """Drain the ids of the hosts that pinged or answered directly since the last call."""
        contacts = list(self._contacts)
        self._contacts.clear()
        return contacts

    @property
    def sizes(self) -> Mapping[str, int]:
        """How much each table and queue holds now, for metrics."""
        return self._stores.sizes()

    @property
    def limits(self) -> Mapping[str, int]:
        """How much each of them may hold."""
        return self._stores.limits()

    def set_unix_offset(self, unix_offset: float) -> None:
        """Take that the wall clock was read again; if it was set, peers' clocks are compared anew."""
        if abs(unix_offset - self.unix_offset) > CLOCK_SET_S:
            self.clocks.forget()
        self.unix_offset = unix_offset

    # The passenger's side.

    def digest_to_send(self, now: float) -> bytes:
        """Return the digest of the own record and of all that is held, with the time on the wall."""
        record = self._store.record(self._host_id)
        mark = record.mark if record else 0
        unix_ms = max(0, int(1000 * (now + self.unix_offset)))
        return codec.encode_digest(Digest(self._epoch, self._version, mark, self._store.mark, unix_ms))

    def handle_digest(self, host_id: str, digest: bytes, now: float) -> None:
        """Compare a peer's digest with what is held; a difference may ask for a sync later."""
        if len(self._contacts) < MAX_HOSTS:
            self._contacts[host_id] = None
        try:
            theirs = codec.decode_digest(digest)
        except RejectedError as error:
            self.counters[f"drops/{error.reason}"] += 1
            return
        if theirs.unix_ms:
            self.clocks.note(host_id, theirs.unix_ms / 1000 - (now + self.unix_offset), now)
        is_own, is_fleet = self._compare(host_id, theirs)
        self._queue.handle_digest(is_alike=not is_fleet, num_members=len(self._store))
        if not is_own and not is_fleet:
            self._differences.clear(host_id)
            return
        held = self._store.record(host_id)
        is_unheard = is_own and (held is None or held.epoch < theirs.epoch)
        self._differences.note(host_id, theirs, is_own=is_own, is_unheard=is_unheard, now=now)

    def _compare(self, host_id: str, theirs: Digest) -> tuple[bool, bool]:
        return _is_behind(self._store.record(host_id), theirs), theirs.fleet_hash != self._store.mark

    def has_updates(self) -> bool:
        """Tell whether changed entries wait to be sent."""
        return bool(self._queue)

    def updates_to_send(self, limit_bytes: int, num_members: int) -> list[bytes]:
        """Return changed entries for one datagram: least sent first, then newest."""
        return self._queue.take(limit_bytes, num_members)

    def handle_update(self, update: bytes, now: float) -> None:
        """Take in one entry that a peer passed on; what is not news changes nothing and is counted.

        Most of what gossip brings came in before, byte for byte: that is known by its hash.
        """
        self._take(update, now)

    def _take(self, update: bytes, now: float) -> bool:
        key = hash(update)
        if key in self._seen:
            self.counters["stale"] += 1
            return False
        try:
            entry = codec.decode_update(update, self._store.holds)
            if entry.host_id == self._host_id:
                self._handle_echo(entry, now)
                return False
            self._put(entry)
        except RejectedError as error:
            self._count_rejected(error, key)
            return False
        self._see(key)
        self.counters["applied"] += 1
        self._spread(entry)
        return True

    def _count_rejected(self, error: RejectedError, key: int) -> None:
        if error.reason == "stale":
            self._see(key)
            self.counters["stale"] += 1
        else:
            self.counters[f"drops/{error.reason}"] += 1

    def _see(self, key: int) -> None:
        if len(self._seen) >= MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = None

    def _put(self, entry: Entry) -> None:
        if entry.epoch <= self._forgotten.get(entry.host_id, -1):
            raise RejectedError("forgotten")
        old = self._store.record(entry.host_id)
        if self._store.put(entry) and old is not None:
            for name in old.entries:
                self._queue.discard((entry.host_id, name))
                self._changed[RecordChanged(entry.host_id, name)] = None

    def _handle_echo(self, entry: Entry, now: float) -> None:
        """Outbid one's own words from an earlier life (same epoch, lost state) with a higher version."""
        if entry.epoch != self._epoch or entry.version <= self._version:
            self.counters["stale"] += 1
            return
        self.counters["drops/own_record"] += 1
        record = self._store.record(self._host_id)
        if now < self._echo_allowed_at or record is None or entry.version > MAX_COUNTER // 2:
            return
        self._echo_allowed_at = now + _ECHO_REPEAT_S
        self._version = entry.version
        for name, held in list(record.entries.items()):
            self._write(name, held.encoded)

    def wants_sync_with(self, now: float) -> str | None:
        """Return the peer to run a stream sync with now; asking counts as doing it, at a limited rate."""
        for host_id, difference in self._differences.due(now):
            is_own, is_fleet = self._compare(host_id, difference.digest)
            if not is_own and not is_fleet:
                self._differences.clear(host_id)
                continue
            if difference.is_own and not is_own:
                # Its own record came by gossip; what it holds of others has its own, longer grace.
                self._differences.clear(host_id)
                self._differences.note(host_id, difference.digest, is_own=False, is_unheard=False, now=now)
                continue
            return self._ask(host_id, difference, now)
        return None

    def _ask(self, host_id: str, difference: Difference, now: float) -> str:
        was_useful = self._num_brought > self._num_brought_at_ask
        self._num_brought_at_ask = self._num_brought
        self._differences.ask(host_id, was_last_useful=was_useful, now=now)
        self.counters["syncs/own" if difference.is_own else "syncs/fleet"] += 1
        return host_id

    def outline_to_send(self, num_buckets: int) -> list[int]:
        """Return a mark for each bucket of hosts: equal marks mean equal records."""
        return self._store.outline(num_buckets)

    def summary_to_send(self, outline: Sequence[int] = ()) -> bytes:
        """Return epoch and hash of the records held where a peer's outline differs; empty if nowhere.

        Without an outline, of all records. Of parts of the ids in turn if a page is too small.
        """
        beginnings = self._beginnings(outline)
        if not any(beginnings):
            return b""
        scope = Summary(codec.FIRST_ID, codec.LAST_ID, {}, beginnings)
        rows = sorted(
            (host, (item.epoch, item.mark))
            for host, item in ((codec.id_bytes(key), item) for key, item in self._store.records())
            if scope.covers(host)
        )
        first, last = codec.FIRST_ID, codec.LAST_ID
        if len(rows) > _MAX_SUMMARY_ROWS:
            first = self._cursor
            rows = [row for row in rows if row[0] >= first]
            if len(rows) > _MAX_SUMMARY_ROWS:
                rows = rows[:_MAX_SUMMARY_ROWS]
                last = rows[-1][0]
                self._cursor = last
            else:
                self._cursor = codec.FIRST_ID
        return codec.encode_summary(Summary(first, last, dict(rows), beginnings))

    def _beginnings(self, outline: Sequence[int]) -> bytes:
        if not outline:
            return codec.ALL_BEGINNINGS
        pairs = zip(self._store.outline(len(outline)), outline, strict=True)
        differs = [ours != theirs for ours, theirs in pairs]
        chosen = sum(1 << byte for byte in range(256) if differs[byte % len(outline)])
        return chosen.to_bytes(len(codec.ALL_BEGINNINGS), "little")

    def pages_to_send(self, summary: bytes) -> list[bytes]:
        """Return the records that the peer with this summary lacks or holds in another state."""
        try:
            theirs = codec.decode_summary(summary)
        except RejectedError as error:
            self.counters[f"drops/{error.reason}"] += 1
            return []
        return codec.encode_pages(self._missing(theirs))

    def _missing(self, theirs: Summary) -> Iterator[bytes]:
        for host_id, record in self._store.records():
            host = codec.id_bytes(host_id)
            if not theirs.covers(host):
                continue
            epoch, mark = theirs.rows.get(host, (-1, 0))
            # Of one epoch but another hash: the whole record goes, for versions alone do not show a gap.
            if epoch < record.epoch or (epoch == record.epoch and mark != record.mark):
                for entry in record.entries.values():
                    yield codec.encode_update(entry)

    def handle_page(self, page: bytes, now: float) -> None:
        """Take in one page of a stream sync; a bad entry is dropped and counted, the others stand."""
        try:
            updates = codec.decode_page(page)
        except RejectedError as error:
            self.counters[f"drops/{error.reason}"] += 1
            return
        for update in updates:
            self._num_brought += self._take(update, now)

    def forget(self, host_id: str) -> None:
        """Drop a reaped host's record, and refuse it from slower peers until the host is met again."""
        record = self._store.drop(host_id)
        self._seen.clear()
        self._differences.clear(host_id)
        self._contacts.pop(host_id, None)
        if record is None:
            return
        for name in record.entries:
            self._queue.discard((host_id, name))
            self._changed[RecordChanged(host_id, name)] = None
        while len(self._forgotten) >= MAX_FORGOTTEN:
            del self._forgotten[next(iter(self._forgotten))]
        self._forgotten[host_id] = record.epoch

    def welcome(self, host_id: str) -> None:
        """Take the record of a host that was met (again) from whoever has it, in the same epoch too."""
        self._forgotten.pop(host_id, None)


def _is_behind(held: Record | None, theirs: Digest) -> bool:
    """Tell whether the peer's own record is in a state that is not held here."""
    if held is None:
        return theirs.version > 0
    if held.epoch != theirs.epoch:
        return held.epoch < theirs.epoch and theirs.version > 0
    return held.mark != theirs.own_hash and theirs.version >= held.version
