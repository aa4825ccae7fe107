"""The gossip socket: datagrams in and out without asyncio in between.

asyncio's datagram transport runs timers before it has read what waits, returns nothing for a datagram that is
too large, and hides how much was dropped; an engine that judges peers by time cannot have that (as of CPython
3.11). So the socket is read here, to EAGAIN, whenever the shell says.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Final

from gpumesh.daemon.addresses import from_kernel
from gpumesh.model import Address

RECEIVE_BUFFER_BYTES: Final = 2 << 20
MAX_DATAGRAM_BYTES: Final = 65_535
MAX_BATCH: Final = 4_096
"""Most datagrams read in one go: a flood must not starve timers for ever."""

_IP_MTU_DISCOVER: Final = 10
_IP_PMTUDISC_DONT: Final = 0
_IP_RECVERR: Final = 11
_IPV6_RECVERR: Final = 25
_SO_RCVBUFFORCE: Final = 33
_ERROR_BYTES: Final = 512


class GossipSocket:
    """A bound, non-blocking UDP socket that also reports which peers' kernels refused a datagram.

    ``::`` is all addresses, IPv6 and IPv4; where the kernel has no IPv6, IPv4 alone. Errors: OSError.
    """

    def __init__(self, bind: Address) -> None:
        self.counters: Counter[str] = Counter()
        self._has_refusals = False
        try:
            self._socket = socket.socket(_family_of(bind), socket.SOCK_DGRAM)
        except OSError as error:
            if bind.host != "::" or error.errno != errno.EAFNOSUPPORT:
                raise
            bind = Address("0.0.0.0", bind.port)  # noqa: S104 - what "::" stands for here
            self._socket = socket.socket(_family_of(bind), socket.SOCK_DGRAM)
        self._is_v6 = ":" in bind.host
        try:
            self._prepare()
            self._socket.bind((bind.host, bind.port))
        except OSError:
            self._socket.close()
            raise
        host, port = self._socket.getsockname()[:2]
        self.address = Address(str(host), int(port))
        """The bound address; the port is the kernel's choice where 0 was asked for."""

    def _prepare(self) -> None:
        self._socket.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        for option in (_SO_RCVBUFFORCE, socket.SO_RCVBUF):
            # The default holds 92 full datagrams. FORCE needs CAP_NET_ADMIN; sysctl caps the plain one.
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, option, RECEIVE_BUFFER_BYTES)
                break
        if self._is_v6:
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            self._socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVERR, 1)
        # On an IPv6 socket too: it stands for what IPv4 peers' kernels answer.
        self._socket.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
        # A narrow router on the way may cut a datagram in pieces: where its complaint is filtered, it would
        # swallow one that says "don't fragment". Also on an IPv6 socket, for its IPv4 peers.
        self._socket.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DONT)

    @property
    def receive_buffer_bytes(self) -> int:
        """What the kernel really gave (it doubles what was asked, for its own book-keeping)."""
        return self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)

    def fileno(self) -> int:
        """Return the descriptor to watch for reading."""
        return self._socket.fileno()

    def receive_all(self) -> Iterator[tuple[bytes, Address]]:
        """Yield what waits, to EAGAIN or :data:`MAX_BATCH`."""
        for _ in range(MAX_BATCH):
            try:
                data, source = self._socket.recvfrom(MAX_DATAGRAM_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                # An ICMP error is reported once on the next call and then gone; refused_peers() says whose.
                self.counters[f"receive_error/{errno.errorcode.get(error.errno or 0, 'unknown')}"] += 1
                self._has_refusals = True
                continue
            yield data, from_kernel(source[0], source[1])

    def refused_peers(self, *, is_likely: bool = False) -> list[Address]:
        """Return the peers whose kernel answered that nobody listens there (ICMP port unreachable).

        Such an answer makes the next call on the socket fail (ip(7), IP_RECVERR): until one has, none is
        looked for, unless one ``is_likely``.
        """
        refused: list[Address] = []
        if not (self._has_refusals or is_likely):
            return refused
        self._has_refusals = False
        for _ in range(MAX_BATCH):
            try:
                _, ancillary, _, target = self._socket.recvmsg(0, _ERROR_BYTES, socket.MSG_ERRQUEUE)
            except OSError:
                break
            for _, _, data in ancillary:
                if len(data) >= 4 and int.from_bytes(data[:4], "little") == errno.ECONNREFUSED:  # noqa: PLR2004
                    refused.append(from_kernel(target[0], target[1]))
        return refused

    def send(self, data: bytes, target: Address) -> None:
        """Send one datagram; what the kernel refuses is counted, for gossip repeats itself."""
        try:
            self._socket.sendto(data, (self._to_kernel(target.host), target.port))
        except BlockingIOError:
            self.counters["send_error/EAGAIN"] += 1
        except OSError as error:
            self.counters[f"send_error/{errno.errorcode.get(error.errno or 0, 'unknown')}"] += 1
            self._has_refusals = True
            if error.errno == errno.ECONNREFUSED:
                # The error belongs to an earlier datagram and this one was not sent: say it again.
                with contextlib.suppress(OSError):
                    self._socket.sendto(data, (self._to_kernel(target.host), target.port))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _to_kernel(self, host: str) -> str:
        return f"::ffff:{host}" if self._is_v6 and ":" not in host else host


def _family_of(bind: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in bind.host else socket.AF_INET
