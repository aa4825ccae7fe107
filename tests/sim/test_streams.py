from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumesh.model import Address
from gpumesh.sim.conditions import LinkProfile
from gpumesh.sim.streams import CONNECT_TIMEOUT_S, GIVE_UP_S, MAX_ENDS
from gpumesh.swim.ports import CloseStream, OpenStream, SendStream

if TYPE_CHECKING:
    from tests.sim.conftest import FakeWorld, MakeWorld


def connect(world: FakeWorld, stream_id: int = 1) -> None:
    world.act(0, OpenStream(stream_id, world.hosts[1].address))
    world.run_for(0.1)


def received(world: FakeWorld, number: int) -> bytes:
    return b"".join(data for _, data, _ in world.node(number).seen("data"))


def test_stream_opens_at_both_ends_and_carries_bytes_in_order(make_world: MakeWorld) -> None:
    world = make_world()
    connect(world)
    [(source, _)] = world.node(1).seen("accepted")
    assert source.host == world.hosts[0].address.host
    assert source.port != world.hosts[0].address.port
    assert [stream_id for stream_id, _ in world.node(0).seen("opened")] == [1]
    payload = bytes(range(256)) * 300
    world.act(0, SendStream(1, payload))
    world.act(1, SendStream(1001, b"back"))
    world.run_for(1.0)
    assert received(world, 1) == payload
    assert len(world.node(1).seen("data")) > 1
    assert received(world, 0) == b"back"


@pytest.mark.parametrize("seed", range(5))
def test_loss_delays_and_reorders_nothing(make_world: MakeWorld, seed: int) -> None:
    world = make_world(link=LinkProfile(loss=0.3, reorder=0.5), seed=seed)
    world.act(0, OpenStream(1, world.hosts[1].address))
    world.run_for(CONNECT_TIMEOUT_S)
    assert world.node(0).seen("opened")
    for number in range(50):
        world.act(0, SendStream(1, bytes([number])))
        world.run_for(0.001)
    world.run_for(60.0)
    assert received(world, 1) == bytes(range(50))


@pytest.mark.parametrize("seed", range(5))
def test_acceptor_that_speaks_first_is_heard_after_the_stream_stands(
    make_world: MakeWorld, seed: int
) -> None:
    world = make_world(link=LinkProfile(latency_s=0.001, jitter_s=0.01), seed=seed)
    world.act(0, OpenStream(1, world.hosts[1].address))
    while not world.node(1).seen("accepted"):
        world.run_for(0.0001)
    world.act(1, SendStream(1001, b"welcome"))
    world.run_for(1.0)
    assert [call[0] for call in world.node(0).calls if call[0] in {"opened", "data"}] == ["opened", "data"]


def test_close_comes_after_all_that_was_written(make_world: MakeWorld) -> None:
    world = make_world(link=LinkProfile(loss=0.2))
    connect(world)
    world.run_for(10.0)
    world.act(0, SendStream(1, b"last words"), CloseStream(1))
    world.run_for(30.0)
    assert [call[0] for call in world.node(1).calls if call[0] in {"data", "closed"}] == ["data", "closed"]
    assert received(world, 1) == b"last words"
    assert world.node(0).seen("closed") == []
    assert world.streams.num_open(0) == world.streams.num_open(1) == 0


def test_refused_stream_is_closed_at_its_opener(make_world: MakeWorld) -> None:
    world = make_world()
    world.node(1).refuses = True
    connect(world)
    assert [stream_id for stream_id, _ in world.node(0).seen("closed")] == [1]
    assert world.streams.num_open(1) == 0


def test_dead_daemon_refuses_at_once_and_dark_host_times_out(make_world: MakeWorld) -> None:
    world = make_world(3)
    world.crash(world.hosts[1])
    world.crash(world.hosts[2], power=True)
    world.act(0, OpenStream(1, world.hosts[1].address), OpenStream(2, world.hosts[2].address))
    world.run_for(1.0)
    assert [stream_id for stream_id, _ in world.node(0).seen("closed")] == [1]
    world.run_for(CONNECT_TIMEOUT_S)
    assert [stream_id for stream_id, _ in world.node(0).seen("closed")] == [1, 2]


def test_nobody_at_the_address_times_out(make_world: MakeWorld) -> None:
    world = make_world()
    world.act(0, OpenStream(1, Address("192.0.2.1", 7977)))
    world.run_for(CONNECT_TIMEOUT_S - 0.1)
    assert world.node(0).seen("closed") == []
    world.run_for(0.2)
    assert world.node(0).seen("closed")


def test_killed_daemon_resets_its_streams_and_lost_power_is_silent(make_world: MakeWorld) -> None:
    world = make_world()
    connect(world)
    world.crash(world.hosts[0])
    world.run_for(1.0)
    assert [stream_id for stream_id, _ in world.node(1).seen("closed")] == [1001]
    world.restart(world.hosts[0])
    connect(world, 2)
    world.crash(world.hosts[0], power=True)
    world.run_for(60.0)
    assert len(world.node(1).seen("closed")) == 1


def test_stream_across_a_partition_fails_when_it_has_tried_long_enough(make_world: MakeWorld) -> None:
    world = make_world()
    connect(world)
    world.partition([[world.hosts[0]], [world.hosts[1]]])
    world.act(0, SendStream(1, b"into the void"))
    world.run_for(GIVE_UP_S - 1.0)
    assert world.node(0).seen("closed") == []
    world.run_for(3.0)
    assert world.node(0).seen("closed")
    assert received(world, 1) == b""


def test_stream_survives_a_short_partition(make_world: MakeWorld) -> None:
    world = make_world()
    connect(world)
    world.partition([[world.hosts[0]], [world.hosts[1]]])
    world.act(0, SendStream(1, b"patience"))
    world.run_for(3.0)
    world.heal()
    world.run_for(3.0)
    assert received(world, 1) == b"patience"


def test_kernel_accepts_for_a_stopped_daemon(make_world: MakeWorld) -> None:
    world = make_world()
    world.stall(world.hosts[1], 5.0)
    connect(world)
    world.act(0, SendStream(1, b"anybody?"))
    world.run_for(1.0)
    assert world.node(0).seen("opened")
    assert world.node(1).seen("accepted") == []
    world.run_for(5.0)
    assert received(world, 1) == b"anybody?"


def test_shell_bounds_its_open_streams(make_world: MakeWorld) -> None:
    world = make_world()
    address = world.hosts[1].address
    world.act(0, *(OpenStream(number, address) for number in range(MAX_ENDS + 3)))
    world.run_for(0.1)
    assert len(world.node(0).seen("closed")) == 3
    assert world.streams.num_open(0) == MAX_ENDS
