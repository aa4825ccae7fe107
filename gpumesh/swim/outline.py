"""The outline of a member table: what two hosts compare before they tell each other of members.

Members fall into buckets by their id, and all that matters of a bucket's members is hashed into one mark.
Where the marks agree nothing is told, so a push/pull between hosts of one mind costs the same in any fleet
(memberlist#243), and one between hosts that differ in a few members costs a few rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from gpumesh.model import Address, Reachability
from gpumesh.swim.fields import address_to_wire, id_to_wire
from gpumesh.swim.statement import RANK, Statement

MAX_BUCKETS: Final = 256
"""By the first byte of an id."""
BUCKET_MEMBERS: Final = 8
"""Members a bucket, until there are 256 buckets."""


def num_buckets(num_members: int) -> int:
    """Return into how many buckets a table of this size falls, a power of two."""
    wanted = max(1, num_members // BUCKET_MEMBERS)
    return min(MAX_BUCKETS, 1 << (wanted - 1).bit_length())


def bucket(host_id: str, num: int) -> int:
    """Return the bucket of a member, 0 to ``num`` - 1."""
    return int(host_id[:2], 16) % num


def outline(statements: Iterable[Statement], num: int) -> list[int]:
    """Return one mark of 64 bits a bucket; equal for equal beliefs, in whatever order they were taken."""
    marks = [0] * num
    for held in statements:
        address = held.address if held.kind is Reachability.ALIVE else None
        incarnation = 0 if held.kind is Reachability.LEFT else held.incarnation
        mark = _mark(held.host_id, held.epoch, incarnation, held.kind, address)
        marks[bucket(held.host_id, num)] ^= mark
    return marks


def differing(ours: Sequence[int], theirs: Sequence[int]) -> frozenset[int]:
    """Return the buckets whose marks differ; both outlines have the same number of them."""
    return frozenset(place for place, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1])


@lru_cache(maxsize=16_384)
def _mark(host_id: str, epoch: int, incarnation: int, kind: Reachability, address: Address | None) -> int:
    numbers = b"%d %d %d " % (epoch, incarnation, RANK[kind])
    packed, port = address_to_wire(address) if address is not None else (b"", 0)
    text = id_to_wire(host_id) + numbers + packed + port.to_bytes(2, "big")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
