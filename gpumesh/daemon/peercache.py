"""Addresses of peers kept across restarts: what finds the fleet again when every seed is gone.

Failed peers are kept too (serf#333): after a power cut at the whole site they are the only ones there are.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from gpumesh.daemon.statedir import StateDirectory
from gpumesh.model import Address, View

DOCUMENT: Final = "peers"
MAX_PEERS: Final = 512
_MAX_PORT: Final = 65_535


def load_peers(state: StateDirectory) -> list[Address]:
    """Return the kept addresses; entries that make no sense are left out."""
    document = state.read(DOCUMENT) or {}
    peers = document.get("peers")
    found = [_parse(item) for item in peers[:MAX_PEERS]] if isinstance(peers, list) else []
    return list(dict.fromkeys(address for address in found if address is not None))


def peers_of(view: View) -> list[Address]:
    """Return what is worth keeping of a view: everybody but this host, whatever their state."""
    return [host.address for host in view.hosts if not host.is_self][:MAX_PEERS]


def save_peers(state: StateDirectory, peers: list[Address]) -> bool:
    """Keep the addresses."""
    document = {"peers": [{"host": peer.host, "port": peer.port} for peer in peers]}
    return state.write(DOCUMENT, document, loses="after a restart peers are found by the seeds alone")


def _parse(item: Any) -> Address | None:
    if not isinstance(item, dict):
        return None
    host, port = item.get("host"), item.get("port")
    if not isinstance(host, str) or not isinstance(port, int) or not 0 < port <= _MAX_PORT:
        return None
    try:
        return Address(str(ipaddress.ip_address(host)), port)
    except ValueError:
        return None
