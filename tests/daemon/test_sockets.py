from __future__ import annotations

import asyncio
import errno
import os
import socket

import pytest

from gpumesh.daemon.sockets import GossipSocket
from gpumesh.model import Address
from tests.daemon.bound import both_families, free_socket


async def test_a_refusal_that_the_next_datagram_met_is_found_without_another_failing_call() -> None:
    dead, living, sender = free_socket(), free_socket(), free_socket()
    gone = dead.address
    dead.close()
    sender.send(b"hello", gone)
    await asyncio.sleep(0.05)
    sender.send(b"to the living", living.address)
    await asyncio.sleep(0.05)
    assert [data for data, _ in living.receive_all()] == [b"to the living"]
    assert sender.refused_peers() == [gone]
    assert sender.refused_peers() == []
    living.close()
    sender.close()


async def test_a_refusal_is_looked_for_where_the_kernel_woke_the_daemon_and_no_datagram_was_there() -> None:
    dead, sender = free_socket(), free_socket()
    gone = dead.address
    dead.close()
    sender.send(b"hello", gone)
    await asyncio.sleep(0.05)
    # The error itself was taken by another call on the socket.
    assert sender._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
    assert list(sender.receive_all()) == []
    assert sender.refused_peers() == []
    assert sender.refused_peers(is_likely=True) == [gone]
    sender.close()


async def test_a_datagram_too_large_is_counted_and_harms_nothing() -> None:
    sender, receiver = free_socket(), free_socket()
    sender.send(b"x" * 70_000, receiver.address)
    sender.send(b"fine", receiver.address)
    assert sender.counters["send_error/EMSGSIZE"] == 1
    assert [data for data, _ in receiver.receive_all()] == [b"fine"]
    sender.close()
    receiver.close()


async def test_an_ipv6_socket_speaks_to_ipv4_peers_by_their_ipv4_address() -> None:
    both = both_families()
    four = free_socket()
    both.send(b"ping", four.address)
    await asyncio.sleep(0.05)
    ((data, source),) = list(four.receive_all())
    assert data == b"ping"
    four.send(b"pong", Address("127.0.0.1", source.port))
    await asyncio.sleep(0.05)
    ((data, source),) = list(both.receive_all())
    assert (data, source) == (b"pong", four.address)
    both.close()
    four.close()


def test_where_the_kernel_has_no_ipv6_all_addresses_are_those_of_ipv4(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = socket.socket

    def without_ipv6(family: int, kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        return plain(family, kind)

    monkeypatch.setattr(socket, "socket", without_ipv6)
    bound = GossipSocket(Address("::", 0))
    assert bound.address.host == "0.0.0.0"
    bound.close()
    with pytest.raises(OSError, match="not supported"):
        GossipSocket(Address("::1", 0))
