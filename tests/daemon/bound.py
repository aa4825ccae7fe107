"""Gossip sockets bound on loopback, for tests."""

from __future__ import annotations

import socket
from typing import Final

from gpumesh.daemon.sockets import GossipSocket
from gpumesh.model import Address
from tests.requirements import lacks

LOOPBACK: Final = Address("127.0.0.1", 0)


def free_socket() -> GossipSocket:
    """Bind a port that is free for streams too: the kernel picks for datagrams alone."""
    while True:
        bound = GossipSocket(LOOPBACK)
        with socket.socket() as listener:
            try:
                listener.bind(tuple(bound.address))
            except OSError:
                bound.close()
            else:
                return bound


def both_families() -> GossipSocket:
    """Bind to all addresses where the kernel has IPv6."""
    bound = GossipSocket(Address("::", 0))
    if bound.address.host != "::":
        bound.close()
        lacks("this kernel has no IPv6")
    return bound
