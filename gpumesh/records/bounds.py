"""Every size, count and depth that a record is held to, in one place.

A bound is checked before anything is stored or passed on; what exceeds it is dropped and counted by reason.
"""

from __future__ import annotations

from typing import Final

MAX_HOSTS: Final = 16_384
"""Records held, as many as membership has members; an update about a further host is refused."""
MAX_ENTRIES: Final = 128
"""Entries of one host, tombstones included: 64 GPUs, those seen before them, and a handful of fixed names."""
MAX_RECORD_BYTES: Final = 128 * 1024
"""Encoded values of one host together."""
MAX_VALUE_BYTES: Final = 8 * 1024
"""One encoded value. What does not fit a datagram travels by stream."""
MAX_GOSSIP_BYTES: Final = 940
"""One encoded update in a datagram of 1,232 bytes, which membership shares (hashicorp/memberlist#299)."""
MAX_NAME: Final = 128
"""Characters of an entry's name."""
MAX_DEPTH: Final = 6
"""Containers within containers of one value."""
MAX_NODES: Final = 1024
"""Scalars and containers of one value."""
MAX_ITEMS: Final = 128
"""Items of one list or map of a value."""
MAX_TEXT: Final = 2048
"""Characters of one string of a value."""
MAX_NUMBER: Final = 1e15
"""Largest magnitude of a float: no unit in use here comes near."""
MAX_INTEGER: Final = 2**63 - 1
MAX_COUNTER: Final = 2**53
"""Largest epoch and version: a peer cannot push a host's own counter to where it would end."""
MAX_PAGE_BYTES: Final = 60 * 1024
"""One page of a stream sync, and one summary: with framing and seal it stays below 64 KiB."""
MAX_PAGES: Final = 64
"""Pages sent in one stream sync; what is left over follows with the next."""
MAX_QUEUED: Final = 4096
"""Updates waiting to be gossiped; beyond, the one sent most often goes first (consul#9927)."""
MAX_DIFFERENCES: Final = 256
"""Peers whose digests differed and that are not looked into yet."""
MAX_FORGOTTEN: Final = 4096
"""Reaped hosts remembered, so that a slower peer does not bring their records back."""
MAX_SEEN: Final = 2048
"""Hashes of the updates that came in last: most come again."""
