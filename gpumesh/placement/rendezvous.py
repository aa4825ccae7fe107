"""Weighted rendezvous in integers: which hosts a key prefers, the same everywhere and for ever.

Every host draws as many 64-bit numbers as its weight from a hash of key and host, and its best one counts.
All draws are alike and independent, so the host with the best of all is host i with probability w_i divided
by the sum of weights: exactly the law of the usual -w/ln(u), without a logarithm that differs between C
libraries. A host's draws depend on nothing but itself, so removing one host moves only what was there, and a
weight that grows by one adds one draw.

One BLAKE2b call yields 64 bytes, eight draws, and a weight is capped at 64: at most eight hashes a host.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

MAX_WEIGHT: Final = 64
_DIGEST_BYTES: Final = 64
_DRAW_BYTES: Final = 8
_DRAWS: Final = _DIGEST_BYTES // _DRAW_BYTES


def best_draw(key: str, host_id: str, weight: int) -> int:
    """Return the best of ``weight`` draws (at least 1, at most 64) of a host for a key."""
    left = max(1, min(weight, MAX_WEIGHT))
    # Lengths keep key and host apart: no two pairs give the same input.
    name = key.encode("utf-8", "surrogatepass")
    seed = b"gpumesh placement 1\0" + len(name).to_bytes(4, "big") + name + host_id.encode()
    best = 0
    block = 0
    while left > 0:
        digest = blake2b(seed + bytes([block]), digest_size=_DIGEST_BYTES).digest()
        num_draws = min(left, _DRAWS)
        for start in range(0, num_draws * _DRAW_BYTES, _DRAW_BYTES):
            best = max(best, int.from_bytes(digest[start : start + _DRAW_BYTES], "big"))
        left -= num_draws
        block += 1
    return best


def order(key: str, weights: Iterable[tuple[str, int]]) -> list[str]:
    """Return the host ids in the order in which this key prefers them; equal draws go by id."""
    return [
        host_id
        for _, host_id in sorted((-best_draw(key, host_id, weight), host_id) for host_id, weight in weights)
    ]
