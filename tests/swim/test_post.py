from __future__ import annotations

from random import Random

import pytest

from gpumesh.model import Address, Identity, Reachability
from gpumesh.swim.context import Context
from gpumesh.swim.member import Member
from gpumesh.swim.parameters import LAN
from gpumesh.swim.post import MAX_WAITING, Post
from gpumesh.swim.seal import FleetSealer
from gpumesh.swim.statement import Statement
from gpumesh.swim.wire import Ack, Datagram, Gossip, Nack, Ping, decode
from tests.swim.link import KEY, QuietPassenger, host_id

TO = Address("10.0.0.9", 9)


class Bench:
    def __init__(self) -> None:
        self.passenger = QuietPassenger()
        self.context = Context(
            identity=Identity(host_id(0), "me", 1, "boot"),
            address=Address("10.0.0.1", 1),
            parameters=LAN,
            sealer=FleetSealer(KEY, "test", bytes(16)),
            passenger=self.passenger,
            random=Random(1),
            now=0.0,
        )
        self.post = Post(self.context)
        self.reader = FleetSealer(KEY, "test", bytes([1] * 16))

    def sent(self) -> list[Datagram]:
        return [decode(self.reader.open(data).body) for data, _ in self.post.drain()]

    def spread(self, count: int) -> None:
        for number in range(count):
            address = Address("2001:db8::1", number + 1)
            self.context.spread(
                Statement(Reachability.ALIVE, host_id(number + 1), 2**40, 2**30, address), 0.0
            )


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_memberlist_299_the_passenger_has_its_share_of_a_full_datagram(bench: Bench) -> None:
    bench.spread(500)
    bench.passenger.outgoing = [bytes(50) for _ in range(100)]
    bench.passenger.digest = bytes(64)
    assert bench.post.send(Ping(1, host_id(1)), TO)
    assert len(bench.post.outbox[0][0]) <= LAN.datagram_bytes
    (datagram,) = bench.sent()
    assert len(datagram.statements) > 10
    assert sum(map(len, datagram.updates)) >= LAN.passenger_bytes - 60


def test_the_passenger_has_all_the_room_that_membership_leaves(bench: Bench) -> None:
    bench.passenger.outgoing = [bytes(100) for _ in range(100)]
    bench.post.send(Gossip(), TO)
    assert len(bench.post.outbox[0][0]) > LAN.datagram_bytes - 110
    assert len(bench.sent()[0].updates) >= 11


def test_an_update_too_large_is_left_out_and_counted(bench: Bench) -> None:
    class Greedy(QuietPassenger):
        def updates_to_send(self, limit_bytes: int, num_members: int) -> list[bytes]:
            return [b"small", bytes(5000)]

        def digest_to_send(self, now: float) -> bytes:
            return bytes(100)

    bench.context.passenger = Greedy()
    bench.post.send(Ping(1, host_id(1)), TO)
    (datagram,) = bench.sent()
    assert datagram.updates == (b"small",)
    assert datagram.digest == b""
    assert bench.context.counters["drops/passenger_oversize"] == 1
    assert bench.context.counters["drops/digest_oversize"] == 1


def test_gossip_without_news_is_not_sent(bench: Bench) -> None:
    assert not bench.post.send(Gossip(), TO)
    assert bench.sent() == []


def test_a_suspect_hears_first_what_it_is_accused_of(bench: Bench) -> None:
    bench.spread(500)
    suspect = Member(host_id(7), TO, 1, 4, 0.0)
    suspect.turn(Reachability.SUSPECT, 1, 4, 1.0)
    suspect.accuser = host_id(2)
    bench.post.send(Ping(1, suspect.host_id), TO, suspect)
    (datagram,) = bench.sent()
    assert datagram.statements[0] == Statement(Reachability.SUSPECT, host_id(7), 1, 4, None, host_id(2))


def test_digests_ride_on_pings_and_acks_alone(bench: Bench) -> None:
    bench.passenger.digest = b"digest"
    for primary in (Ping(1, ""), Ack(1, is_stranger=False), Nack(1)):
        bench.post.send(primary, TO)
    assert [datagram.digest for datagram in bench.sent()] == [b"digest", b"digest", b""]


def test_who_has_left_says_so_in_everything_it_sends_and_nothing_else(bench: Bench) -> None:
    bench.spread(5)
    bench.context.is_leaving = True
    bench.post.send(Ack(1, is_stranger=False), TO)
    (datagram,) = bench.sent()
    kinds = [statement.kind for statement in datagram.statements if isinstance(statement, Statement)]
    assert kinds == [Reachability.LEFT]
    assert datagram.updates == ()


def test_what_waits_for_the_shell_is_bounded(bench: Bench) -> None:
    for number in range(MAX_WAITING + 10):
        bench.post.send(Nack(number), TO)
    assert len(bench.post.drain()) == MAX_WAITING
    assert bench.context.counters["drops/outbox"] == 10
