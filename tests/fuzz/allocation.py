"""How much an input may have allocated, and what makes each bound."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgpack

from gpumesh.swim.parameters import MAX_FRAME_BYTES
from gpumesh.swim.wire import MAX_ITEMS

DECODER_BYTES: Final = 64 * 1024
"""msgpack's own stack of LEVELS, and what does not depend on the input."""
PACKER_BYTES: Final = 1_024 * 1_024 if msgpack.version < (1, 1) else 256 * 1024
"""``msgpack.packb`` makes a buffer of this size for each answer, and gives it back before the next one."""
BYTES_A_BYTE: Final = 128
"""The least that becomes something lasting is a statement of 33 bytes: a row of the table, its lease, its
address, an event, news and a timer, two kilobytes in all, and as much again while tables grow. In a decoder,
a byte makes a tuple."""
LEVELS: Final = 1_024
"""So deep does msgpack go, and three bytes make an array's header."""
LEVEL_BYTES: Final = 56 + 8 * MAX_ITEMS
"""It makes room for all that a header claims before it reads on: up to MAX_ITEMS in a datagram."""
UNSEALED_BYTES: Final = 16 * 1024
"""A key derived for a session that is nobody's, counters, the conversation of a refused stream."""
UNSEALED_BYTES_A_BYTE: Final = 3
"""Header and rest, what is authenticated beside it, and what would have been the body: no more copies."""
CHANNEL_BYTES: Final = 8 * 1024
"""The sealer of a stream and the buffer's first room."""
CHANNEL_COPIES: Final = 4
"""A frame lies in the buffer, which grows by an eighth, in the slice and the copy of it, and as a body."""


def decoder_bytes(size: int) -> int:
    """Return what decoding ``size`` bytes may take."""
    return DECODER_BYTES + BYTES_A_BYTE * size


def datagram_decoder_bytes(size: int) -> int:
    """Return the same for a datagram, whose arrays may be larger: two megabytes at most."""
    return decoder_bytes(size) + min(size // 3, LEVELS) * LEVEL_BYTES


def engine_bytes(kind: str, size: int) -> int:
    """Return what a sealed ``datagram``, or frame of a ``stream``, may take that is taken in and answered.

    What the host has to say itself comes on top, and grows with what it holds: here that is next to nothing.
    """
    decoded = datagram_decoder_bytes if kind == "datagram" else decoder_bytes
    return decoded(size) + PACKER_BYTES


def unsealed_bytes(size: int) -> int:
    """Return what bytes that nobody of the fleet sealed may take."""
    return UNSEALED_BYTES + UNSEALED_BYTES_A_BYTE * size


def channel_bytes(fed: int, chunk: int) -> int:
    """Return what a stream that ``fed`` bytes went into may hold while it takes its last ``chunk``.

    It follows what came, whatever a frame's length claims, and ends at one frame and a chunk.
    """
    return CHANNEL_BYTES + CHANNEL_COPIES * min(fed, MAX_FRAME_BYTES + chunk)


@contextmanager
def bounded(most_bytes: int, what: str) -> Iterator[None]:
    """Hold what is run to an allocation of its own of at most so many bytes at once, kept or not."""
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        if not was_tracing:
            tracemalloc.stop()
    assert peak - before <= most_bytes, f"{what} had {peak - before} bytes allocated, more than {most_bytes}"
