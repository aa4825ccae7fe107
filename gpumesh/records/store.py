"""The table of records: who may overwrite what, and the hashes that name its state.

Within a host's record a higher epoch replaces everything, a higher version replaces the entry, and nothing
else changes anything: applying the same updates in any order gives the same table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from gpumesh.errors import RejectedError
from gpumesh.records.bounds import MAX_ENTRIES, MAX_HOSTS, MAX_RECORD_BYTES
from gpumesh.records.codec import Entry


class Record:
    """What is held of one host, all of one epoch."""

    __slots__ = ("_entries", "epoch", "mark", "num_tombstones", "size_bytes", "version")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.version = 0
        """The highest version held."""
        self.mark = 0
        """XOR over the entries' marks: equal marks mean equal records, whatever came first."""
        self.size_bytes = 0
        self.num_tombstones = 0
        self._entries: dict[str, Entry] = {}

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The entries by name, tombstones included."""
        return MappingProxyType(self._entries)

    def holds(self, name: str, version: int) -> bool:
        """Return whether the entry is held in this version or a newer one."""
        held = self._entries.get(name)
        return held is not None and version <= held.version

    def check(self, entry: Entry) -> None:
        """Judge whether the entry may go in. Errors: RejectedError; ``stale`` is the everyday one."""
        if self.holds(entry.name, entry.version):
            raise RejectedError("stale")
        held = self._entries.get(entry.name)
        if held is None and len(self._entries) >= MAX_ENTRIES:
            raise RejectedError("entries_full")
        grown_bytes = _size_bytes(entry) - (_size_bytes(held) if held else 0)
        if self.size_bytes + grown_bytes > MAX_RECORD_BYTES:
            raise RejectedError("record_full")

    def put(self, entry: Entry) -> None:
        """Take the entry in. Errors as for :meth:`check`, before anything changed."""
        self.check(entry)
        held = self._entries.get(entry.name)
        if held is not None:
            self.mark ^= held.mark
            self.size_bytes -= _size_bytes(held)
            self.num_tombstones -= held.encoded is None
        self._entries[entry.name] = entry
        self.mark ^= entry.mark
        self.size_bytes += _size_bytes(entry)
        self.num_tombstones += entry.encoded is None
        self.version = max(self.version, entry.version)


class Store:
    """All records held, bounded in hosts, entries and bytes."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self.mark = 0
        """XOR over all entries' marks: the fleet hash."""
        self.num_entries = 0
        """Entries of all hosts, tombstones included."""
        self.num_tombstones = 0
        """Deleted entries: kept for as long as their host's run is, lest an old word bring them back."""

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, host_id: object) -> bool:
        return host_id in self._records

    def record(self, host_id: str) -> Record | None:
        """Return what is held of a host."""
        return self._records.get(host_id)

    def records(self) -> Iterator[tuple[str, Record]]:
        """Iterate over host id and record."""
        return iter(self._records.items())

    def outline(self, num_buckets: int) -> list[int]:
        """Return the XOR of the marks of each bucket's records; buckets are by the first byte of the id."""
        marks = [0] * num_buckets
        for host_id, record in self._records.items():
            marks[int(host_id[:2], 16) % num_buckets] ^= record.mark
        return marks

    def holds(self, host_id: str, epoch: int, name: str, version: int) -> bool:
        """Return whether this entry is held in this version or a newer one of the same epoch."""
        record = self._records.get(host_id)
        return record is not None and record.epoch == epoch and record.holds(name, version)

    def put(self, entry: Entry) -> bool:
        """Take an entry in; tell whether it began a new epoch. Errors: RejectedError, nothing changed."""
        record = self._records.get(entry.host_id)
        if record is None and len(self._records) >= MAX_HOSTS:
            raise RejectedError("hosts_full")
        if record is not None and entry.epoch < record.epoch:
            raise RejectedError("older_epoch")
        is_new_epoch = record is None or entry.epoch > record.epoch
        if record is None or is_new_epoch:
            fresh = Record(entry.epoch)
            fresh.put(entry)
            self.drop(entry.host_id)
            self._records[entry.host_id] = fresh
            self._count(fresh, 1)
            return True
        record.check(entry)
        self._count(record, -1)
        record.put(entry)
        self._count(record, 1)
        return False

    def drop(self, host_id: str) -> Record | None:
        """Let go of a host's record."""
        record = self._records.pop(host_id, None)
        if record is not None:
            self._count(record, -1)
        return record

    def _count(self, record: Record, sign: int) -> None:
        self.mark ^= record.mark
        self.num_entries += sign * len(record.entries)
        self.num_tombstones += sign * record.num_tombstones


def _size_bytes(entry: Entry) -> int:
    return len(entry.name) + (len(entry.encoded) if entry.encoded is not None else 0)
