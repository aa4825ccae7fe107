from __future__ import annotations

from typing import TYPE_CHECKING

from gpumesh.model import Address
from gpumesh.sim.conditions import LinkProfile

if TYPE_CHECKING:
    from tests.sim.conftest import MakeWorld


def test_datagram_arrives_after_the_latency_with_its_source(make_world: MakeWorld) -> None:
    world = make_world()
    world.send(0, 1, b"hello")
    world.run_for(0.009)
    assert world.node(1).seen("datagram") == []
    world.run_for(0.002)
    [(data, source, _)] = world.node(1).seen("datagram")
    assert (data, source) == (b"hello", world.hosts[0].address)


def test_kernel_of_a_dead_daemon_answers_unreachable_and_a_dark_host_does_not(make_world: MakeWorld) -> None:
    world = make_world(3)
    world.crash(world.hosts[1])
    world.crash(world.hosts[2], power=True)
    world.send(0, 1)
    world.send(0, 2)
    world.run_for(1.0)
    told = [address for address, _ in world.node(0).seen("unreachable") if address.port != 1]
    assert told == [world.hosts[1].address]


def test_partition_and_unknown_addresses_lose_datagrams_silently(make_world: MakeWorld) -> None:
    world = make_world()
    world.partition([[world.hosts[0]], [world.hosts[1]]])
    world.send(0, 1)
    world.node(0).outbox.append((b"x", Address("192.0.2.1", 7977)))
    world.send(0, 1)
    world.run_for(1.0)
    assert world.node(1).seen("datagram") == []
    assert world.network.counts["lost"] == 3


def test_duplicated_datagrams_arrive_twice(make_world: MakeWorld) -> None:
    world = make_world(link=LinkProfile(duplicate=1.0))
    world.send(0, 1)
    world.run_for(1.0)
    assert len(world.node(1).seen("datagram")) == 2


def test_traffic_is_counted_for_each_host(make_world: MakeWorld) -> None:
    world = make_world()
    world.send(0, 1, b"12345")
    assert world.network.counts["datagrams"] == 1
    assert world.network.sent_bytes == {0: 5}


def test_moved_host_is_reached_at_its_new_address_only(make_world: MakeWorld) -> None:
    world = make_world()
    old = world.hosts[1].address
    world.restart(world.hosts[1], address=Address("10.9.9.9", 7977))
    world.node(0).outbox.append((b"to the old", old))
    world.send(0, 1, b"to the new")
    world.run_for(1.0)
    assert [data for data, *_ in world.node(1).seen("datagram")] == [b"to the new"]
