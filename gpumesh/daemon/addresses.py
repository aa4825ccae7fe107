"""Which addresses: where to bind, and which address peers are told."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from gpumesh.config.fields import parse_endpoint
from gpumesh.model import Address

_SIOCGIFADDR: Final = 0x8915


def is_loopback(host: str) -> bool:
    """Whether the IP literal is of this machine alone; a name or an empty host is not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_unspecified(host: str) -> bool:
    """Whether the literal stands for all addresses (``0.0.0.0``, ``::`` or empty)."""
    return host in {"", "0.0.0.0", "::"}  # noqa: S104 - compared, not bound


def advertised(bind: Address, advertise: str, seeds: Sequence[Address]) -> Address:
    """Return the address peers are told.

    In order: what the configuration says; the bound address if it is one; the source address of the route to
    a seed; that of the default route; the first address of an interface; loopback. The family is that of the
    bind (consul#529).
    """
    if advertise:
        host, port = parse_endpoint(advertise)
        return Address(host, port or bind.port)
    if not is_unspecified(bind.host):
        return bind
    family = socket.AF_INET6 if bind.host == "::" else socket.AF_INET
    # Documentation addresses (RFC 5737, RFC 3849): connecting a datagram socket sends nothing.
    anywhere = [Address("192.0.2.1", 9), *([Address("2001:db8::1", 9)] if family == socket.AF_INET6 else [])]
    for target in [*seeds, *anywhere]:
        source = _route_source(target, family)
        if source is not None and not (is_loopback(source) and not is_loopback(target.host)):
            return Address(source, bind.port)
    for host in _interface_addresses():
        return Address(host, bind.port)
    return Address("127.0.0.1", bind.port)


def _route_source(target: Address, family: int) -> str | None:
    """Return the local address from which a datagram to ``target`` would leave, or None without a route."""
    own = socket.AF_INET6 if ":" in target.host else socket.AF_INET
    if own == socket.AF_INET6 and family == socket.AF_INET:
        return None
    with contextlib.suppress(OSError), socket.socket(own, socket.SOCK_DGRAM) as probe:
        probe.connect((target.host, target.port or 9))
        return str(probe.getsockname()[0]).split("%", 1)[0]
    return None


def _interface_addresses(proc: Path = Path("/proc")) -> Iterable[str]:
    """Yield this machine's addresses off loopback: IPv4 by interface, then global IPv6."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                host = socket.inet_ntoa(answer[20:24])
                if not is_loopback(host):
                    yield host
    with contextlib.suppress(OSError):
        for line in (proc / "net/if_inet6").read_text().splitlines():
            packed, _, _, scope, *_ = line.split()
            if scope == "00":
                yield str(ipaddress.IPv6Address(int(packed, 16)))
