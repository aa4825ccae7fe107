"""The records' own wire forms: update, page, summary and digest, each bounded both ways.

They travel inside authenticated messages, yet a member may be mad: every decoder either returns a checked
value or raises RejectedError with the reason under which the drop is counted.

- update: msgpack ``[host id (16 bytes), epoch, version, name, value]``; the value is a nested encoding, kept
  and passed on as it came; nil marks a deleted entry.
- page: msgpack list of updates.
- summary: msgpack ``[first id, last id, [[host id, epoch, hash], …], beginnings]``: all that is held of the
  hosts between the two ids, so a table too large for one summary is compared piece by piece (quickwit PR
  6653), and of those only whose first byte stands in the set of 256 bits, because there two outlines differ.
- digest: 41 bytes, ``version byte, epoch, version, own hash, fleet hash, wall clock in ms``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import msgpack

from gpumesh.errors import RejectedError
from gpumesh.model import host_id_text
from gpumesh.records.bounds import MAX_COUNTER, MAX_HOSTS, MAX_PAGE_BYTES, MAX_PAGES, MAX_VALUE_BYTES
from gpumesh.records.values import ArrayReader, Plain, decode_value, is_entry_name, unpack

_DIGEST: Final = struct.Struct("!BQQQQQ")
_DIGEST_VERSION: Final = 2
_UPDATE_OVERHEAD: Final = 256
_UPDATE_FIELDS: Final = 5
_SUMMARY_FIELDS: Final = 4
_ROW_FIELDS: Final = 3
_ID_BYTES: Final = 16
MAX_UPDATE_BYTES: Final = MAX_VALUE_BYTES + _UPDATE_OVERHEAD
MIN_UPDATE_BYTES: Final = 24
"""No update is shorter: host id, three integers and a name."""
FIRST_ID: Final = bytes(_ID_BYTES)
LAST_ID: Final = b"\xff" * _ID_BYTES
ALL_BEGINNINGS: Final = b"\xff" * 32


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of one host's record."""

    host_id: str
    epoch: int
    version: int
    """Counts all changes of the record within its epoch, so the highest names the record's state."""
    name: str
    encoded: bytes | None
    """The value as its owner encoded it; None: deleted."""
    mark: int = field(compare=False, default=0)
    """64-bit hash of host, epoch, name and version; the XOR over entries names a set of them in any order."""

    @property
    def value(self) -> Plain:
        """The value, decoded anew: kept decoded, a large fleet's would take several times the memory."""
        return None if self.encoded is None else decode_value(self.encoded)


@dataclass(frozen=True, slots=True)
class Digest:
    """What one host says on each ping and ack of its own record and of all it holds."""

    epoch: int
    version: int
    own_hash: int
    fleet_hash: int
    unix_ms: int = 0
    """Its wall clock when it said so, in milliseconds since 1970; 0: not told."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What one host holds of the records between two ids, inclusive, whose ids begin as told."""

    first: bytes
    last: bytes
    rows: Mapping[bytes, tuple[int, int]]
    """Host id → epoch and hash of the record held."""
    beginnings: bytes = ALL_BEGINNINGS
    """A bit for each first byte of an id that this summary is about, 32 bytes."""

    def covers(self, host: bytes) -> bool:
        """Tell whether it says all that is held of this host, be it nothing."""
        is_meant = self.beginnings[host[0] >> 3] >> (host[0] & 7) & 1
        return bool(is_meant) and self.first <= host <= self.last


IsHeld = Callable[[str, int, str, int], bool]
"""Whether an entry of this host id, epoch and name is held in this version or a newer one."""


def make_entry(host_id: str, name: str, *, epoch: int, version: int, encoded: bytes | None) -> Entry:
    """Return an entry with its mark."""
    text = f"{host_id} {epoch} {version} {name}".encode()
    mark = int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
    return Entry(host_id, epoch, version, _shared(name), encoded, mark)


@lru_cache(maxsize=4_096)
def _shared(name: str) -> str:
    """Return one string for one name: most records have the same few."""
    return name


def encode_update(entry: Entry) -> bytes:
    """Return the update that carries this entry."""
    data: bytes = msgpack.packb(
        [id_bytes(entry.host_id), entry.epoch, entry.version, entry.name, entry.encoded]
    )
    return data


def decode_update(data: bytes, is_held: IsHeld | None = None) -> Entry:
    """Return the checked entry in an update. Errors: RejectedError, ``stale`` for one that is held already.

    Most of what gossip brings is held already, and finding that out costs far less than checking its value.
    """
    if len(data) > MAX_UPDATE_BYTES:
        raise RejectedError("too_large", f"{len(data)} bytes")
    row = unpack(data, max_items=_UPDATE_FIELDS)
    if not isinstance(row, list) or len(row) != _UPDATE_FIELDS:
        raise RejectedError("malformed", "not an update")
    host, epoch, version, name, encoded = row
    host_id = id_text(host)
    if not is_entry_name(name):
        raise RejectedError("entry_name")
    if not _is_counter(epoch) or not _is_counter(version) or version == 0:
        raise RejectedError("counter")
    if is_held is not None and is_held(host_id, epoch, name, version):
        raise RejectedError("stale")
    if encoded is None:
        return make_entry(host_id, name, epoch=epoch, version=version, encoded=None)
    if not isinstance(encoded, bytes):
        raise RejectedError("malformed", "value is not encoded")
    decode_value(encoded)
    return make_entry(host_id, name, epoch=epoch, version=version, encoded=encoded)


def encode_pages(updates: Iterable[bytes]) -> list[bytes]:
    """Return the updates packed into as few pages as their order allows, at most ``MAX_PAGES``."""
    pages: list[bytes] = []
    packer = msgpack.Packer()
    rows: list[bytes] = []
    size_bytes = 0
    for update in updates:
        # Three bytes of array header for the page, three of framing for each update.
        if rows and size_bytes + len(update) + 3 > MAX_PAGE_BYTES - 3:
            pages.append(packer.pack(rows))
            rows, size_bytes = [], 0
            if len(pages) == MAX_PAGES:
                return pages
        rows.append(update)
        size_bytes += len(update) + 3
    if rows:
        pages.append(packer.pack(rows))
    return pages


def decode_page(data: bytes) -> list[bytes]:
    """Return the updates in a page, still encoded. Errors: RejectedError."""
    if len(data) > MAX_PAGE_BYTES:
        raise RejectedError("too_large", f"{len(data)} bytes")
    reader = ArrayReader(data, max_inner=0)
    rows = [reader.item() for _ in range(reader.begin_array(MAX_PAGE_BYTES // MIN_UPDATE_BYTES))]
    reader.end()
    return [row for row in rows if isinstance(row, bytes)]


def encode_summary(summary: Summary) -> bytes:
    """Return a summary's wire form."""
    rows = [[host, epoch, mark] for host, (epoch, mark) in summary.rows.items()]
    data: bytes = msgpack.packb([summary.first, summary.last, rows, summary.beginnings])
    return data


def decode_summary(data: bytes) -> Summary:
    """Return a checked summary. Errors: RejectedError."""
    if len(data) > MAX_PAGE_BYTES:
        raise RejectedError("too_large", f"{len(data)} bytes")
    reader = ArrayReader(data, max_inner=_ROW_FIELDS)
    if reader.begin_array(_SUMMARY_FIELDS) != _SUMMARY_FIELDS:
        raise RejectedError("malformed", "not a summary")
    first, last = reader.item(), reader.item()
    if not (_is_id(first) and _is_id(last)):
        raise RejectedError("malformed", "not a range of ids")
    rows = dict(_summary_row(reader.item()) for _ in range(reader.begin_array(MAX_HOSTS)))
    beginnings = reader.item()
    if not isinstance(beginnings, bytes) or len(beginnings) != len(ALL_BEGINNINGS):
        raise RejectedError("malformed", "not a set of beginnings")
    reader.end()
    return Summary(first, last, rows, beginnings)


def _summary_row(item: Any) -> tuple[bytes, tuple[int, int]]:
    if not isinstance(item, list) or len(item) != _ROW_FIELDS:
        raise RejectedError("malformed", "not a row of a summary")
    host, epoch, mark = item
    if not _is_id(host) or not _is_counter(epoch) or isinstance(mark, bool) or not isinstance(mark, int):
        raise RejectedError("malformed", "not a row of a summary")
    return host, (epoch, mark)


def encode_digest(digest: Digest) -> bytes:
    """Return the 41 bytes of a digest."""
    return _DIGEST.pack(
        _DIGEST_VERSION, digest.epoch, digest.version, digest.own_hash, digest.fleet_hash, digest.unix_ms
    )


def decode_digest(data: bytes) -> Digest:
    """Return a checked digest. Errors: RejectedError."""
    if len(data) != _DIGEST.size or data[0] != _DIGEST_VERSION:
        raise RejectedError("digest")
    _, epoch, version, own_hash, fleet_hash, unix_ms = _DIGEST.unpack(data)
    if epoch > MAX_COUNTER or version > MAX_COUNTER or unix_ms > MAX_COUNTER:
        raise RejectedError("counter")
    return Digest(epoch, version, own_hash, fleet_hash, unix_ms)


def id_bytes(host_id: str) -> bytes:
    """Return the 16 bytes of a host id."""
    return bytes.fromhex(host_id.replace("-", ""))


def id_text(data: object) -> str:
    """Return the host id in 16 bytes. Errors: RejectedError."""
    if not isinstance(data, bytes) or len(data) != _ID_BYTES:
        raise RejectedError("host_id")
    return host_id_text(data)


def _is_id(data: object) -> bool:
    return isinstance(data, bytes) and len(data) == _ID_BYTES


def _is_counter(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= MAX_COUNTER
