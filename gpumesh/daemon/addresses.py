"""Which addresses: where to bind, and which address peers are told."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from gpumesh.config.fields import parse_endpoint
from gpumesh.model import Address

_SIOCGIFADDR: Final = 0x8915
_ANYWHERE: Final = (Address("192.0.2.1", 9), Address("2001:db8::1", 9))
"""Documentation addresses (RFC 5737, RFC 3849): the way to them is the default route."""


def is_loopback(host: str) -> bool:
    """Whether the IP literal is of this machine alone; a name or an empty host is not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_unspecified(host: str) -> bool:
    """Whether the literal stands for all addresses (``0.0.0.0``, ``::`` or empty)."""
    return host in {"", "0.0.0.0", "::"}  # noqa: S104 - compared, not bound


def from_kernel(host: str, port: int) -> Address:
    """Return an address as everybody else writes it: IPv4-mapped IPv6 as IPv4, no zone."""
    plain = host.split("%", 1)[0]
    return Address(plain[7:] if plain.startswith("::ffff:") and "." in plain else plain, port)


def route_source(target: Address) -> str | None:
    """Return the local address from which a datagram to ``target`` would leave, or None without a route."""
    # Connecting a datagram socket sends nothing.
    family = socket.AF_INET6 if ":" in target.host else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((target.host, target.port or 9))
        return str(probe.getsockname()[0]).split("%", 1)[0]
    return None


def interface_addresses(proc: Path = Path("/proc")) -> Iterable[str]:
    """Yield this machine's addresses off loopback: IPv4 by interface, then global IPv6."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
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


def advertised(
    bind: Address,
    advertise: str,
    seeds: Sequence[Address],
    *,
    route: Callable[[Address], str | None] = route_source,
    interfaces: Callable[[], Iterable[str]] = interface_addresses,
) -> Address:
    """Return the address peers are told.

    In order: what the configuration says; the bound address if it is one; the source address of the route to
    a seed; that of the default route; the first address of an interface; loopback. A socket bound to IPv4
    hears no IPv6, so none is told to peers (consul#529); one bound to ``::`` hears both.
    """
    if advertise:
        host, port = parse_endpoint(advertise)
        return Address(host, port or bind.port)
    if not is_unspecified(bind.host):
        return bind
    for target in [*seeds, *_ANYWHERE]:
        source = route(target) if _hears(bind, target.host) else None
        if source is not None and not (is_loopback(source) and not is_loopback(target.host)):
            return Address(source, bind.port)
    for host in interfaces():
        if _hears(bind, host):
            return Address(host, bind.port)
    return Address("127.0.0.1", bind.port)


def unheard(bind: Address, interfaces: Callable[[], Iterable[str]] = interface_addresses) -> tuple[str, ...]:
    """Return this machine's addresses if a socket bound so hears none of them; else none."""
    hosts = tuple(interfaces())
    return () if not is_unspecified(bind.host) or any(_hears(bind, host) for host in hosts) else hosts


def _hears(bind: Address, host: str) -> bool:
    return ":" in bind.host or ":" not in host
