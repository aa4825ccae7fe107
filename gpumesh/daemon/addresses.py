"""Which addresses: where to bind, and which address peers are told."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpumesh.config.fields import parse_endpoint
from gpumesh.model import Address

_SIOCGIFADDR: Final = 0x8915
_ANYWHERE: Final = (Address("192.0.2.1", 9), Address("2001:db8::1", 9))
"""Documentation addresses (RFC 5737, RFC 3849): the way to them is the default route."""
_TRANSLATED: Final = ipaddress.ip_network("192.0.0.0/29")
"""What a host of IPv6 alone calls itself towards its own translator (RFC 7335): no peer reaches it."""
_IPV6_ADDR_PREFERENCES: Final = 72
_IPV6_PREFER_SRC_PUBLIC: Final = 0x0002


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
    """Return the local address from which a datagram to ``target`` would leave, or None without a route.

    Of IPv6, one that lasts: no temporary address (RFC 8981) where there is another.
    """
    # Connecting a datagram socket sends nothing.
    family = socket.AF_INET6 if _is_v6(target.host) else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        if family == socket.AF_INET6:
            with contextlib.suppress(OSError):  # a kernel that knows no such wish chooses by itself
                probe.setsockopt(socket.IPPROTO_IPV6, _IPV6_ADDR_PREFERENCES, _IPV6_PREFER_SRC_PUBLIC)
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


@dataclass(frozen=True, slots=True)
class Known:
    """Addresses of the fleet known now: what the seeds resolved to, and the peers kept."""

    seeds: Sequence[Address] = ()
    peers: Sequence[Address] = ()

    def __iter__(self) -> Iterator[Address]:
        """Yield the seeds first."""
        yield from self.seeds
        yield from self.peers


def advertised(
    bind: Address,
    advertise: str,
    known: Known,
    present: Address | None = None,
    *,
    route: Callable[[Address], str | None] = route_source,
    interfaces: Callable[[], Iterable[str]] = interface_addresses,
) -> Address:
    """Return the address peers are told; ``present`` is the one they were told so far.

    In order: what the configuration says; the bound address if it is one; the source address of the route to
    the fleet, or else of the default route; the first address of an interface; loopback. A socket bound to
    IPv4 hears no IPv6, so none is told to peers (consul#529). One bound to ``::`` hears both: IPv4 is told
    where the host has a route by it, because members of IPv4 alone are common, unless all seeds are IPv6. The
    order of seeds and peers decides nothing that would make a host move.
    """
    if advertise:
        host, port = parse_endpoint(advertise)
        return Address(host, port or bind.port)
    if not is_unspecified(bind.host):
        return bind
    targets = [target for target in known if _hears(bind, target.host)]
    far = [target for target in targets if not is_loopback(target.host)]
    if not far and (near := _sources(targets, route)):
        return Address(near[0], bind.port)
    told = None if present is None or is_loopback(present.host) else present.host
    ways = [source for source in _sources(far, route) if not is_loopback(source)]
    by_default = [
        source
        for source in _sources([target for target in _ANYWHERE if _hears(bind, target.host)], route)
        if not is_loopback(source)
    ]
    found = [*([told] if told in ways else []), *ways, *by_default]
    if found:
        is_wanted_v6 = _leads_by_ipv6(known.seeds) and not (
            told is not None and not _is_v6(told) and any(not _is_v6(source) for source in ways)
        )
        return Address(min(found, key=lambda source: _is_v6(source) != is_wanted_v6), bind.port)
    for host in interfaces():
        if _hears(bind, host):
            return Address(host, bind.port)
    return Address("127.0.0.1", bind.port)


def unheard(bind: Address, interfaces: Callable[[], Iterable[str]] = interface_addresses) -> tuple[str, ...]:
    """Return this machine's addresses if a socket bound so hears none of them; else none."""
    hosts = tuple(interfaces())
    return () if not is_unspecified(bind.host) or any(_hears(bind, host) for host in hosts) else hosts


def _sources(targets: Iterable[Address], route: Callable[[Address], str | None]) -> list[str]:
    """Return the source address of each route there is, but none that only this link or this host knows."""
    found = ((target, route(target)) for target in targets)
    return [source for target, source in found if source is not None and _is_reached(source, target.host)]


def _is_reached(source: str, target: str) -> bool:
    """Whether a peer at ``target`` can answer to ``source``."""
    address = ipaddress.ip_address(source)
    if address in _TRANSLATED:
        return False
    return not address.is_link_local or ipaddress.ip_address(target).is_link_local


def _leads_by_ipv6(seeds: Sequence[Address]) -> bool:
    far = [seed for seed in seeds if not is_loopback(seed.host)]
    return bool(far) and all(_is_v6(seed.host) for seed in far)


def _hears(bind: Address, host: str) -> bool:
    return _is_v6(bind.host) or not _is_v6(host)


def _is_v6(host: str) -> bool:
    return ":" in host
