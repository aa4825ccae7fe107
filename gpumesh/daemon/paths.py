"""What the routes to peers carry in one datagram, so that this host sends none that it must cut itself.

Tunnels, overlays and PPPoE carry less than Ethernet's 1,500 bytes (corrosion PR 460). The kernel knows the
MTU of each route, and what routers on an IPv6 path said of it (RFC 8201). On IPv4 the gossip socket allows
cutting (``sockets.py``): what is too large for a router beyond comes in pieces, and nobody says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from gpumesh.model import Address

LOOK_EVERY_S: Final = 60.0
_IP_MTU: Final = 14
_IPV6_MTU: Final = 24
_HEADERS_V4: Final = 20 + 8
_HEADERS_V6: Final = 40 + 8


def datagram_bytes(targets: Iterable[Address]) -> int | None:
    """Return the largest datagram that all routes to the targets carry uncut; None without a route."""
    sizes = [size for target in targets if (size := _path_bytes(target)) is not None]
    return min(sizes, default=None)


async def watch_paths(targets: Callable[[], Sequence[Address]], on_size: Callable[[int], None]) -> None:
    """Look at the routes again and again, and tell what they carry; ends only by cancellation."""
    while True:
        size = datagram_bytes(targets())
        if size is not None:
            on_size(size)
        await asyncio.sleep(LOOK_EVERY_S)


def _path_bytes(target: Address) -> int | None:
    is_v6 = ":" in target.host
    family = socket.AF_INET6 if is_v6 else socket.AF_INET
    # Connecting a datagram socket sends nothing: it looks up the route.
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((target.host, target.port))
        if is_v6:
            return probe.getsockopt(socket.IPPROTO_IPV6, _IPV6_MTU) - _HEADERS_V6
        return probe.getsockopt(socket.IPPROTO_IP, _IP_MTU) - _HEADERS_V4
    return None
