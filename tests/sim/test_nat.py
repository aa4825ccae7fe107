from __future__ import annotations

from typing import TYPE_CHECKING

from gpumesh.model import Address
from gpumesh.sim.nat import Nat
from gpumesh.swim.ports import OpenStream

if TYPE_CHECKING:
    from tests.sim.conftest import FakeWorld, MakeWorld


def sources(world: FakeWorld, number: int) -> list[Address]:
    return [source for _, source, _ in world.node(number).seen("datagram")]


def answer(world: FakeWorld, number: int, to: Address) -> None:
    world.node(number).outbox.append((b"answer", to))
    world.hosts[number].deliver_unreachable(Address("0.0.0.0", 1))


def test_hidden_hosts_seem_to_be_elsewhere_and_answers_find_them(make_world: MakeWorld) -> None:
    world = make_world(3)
    world.network.nat.hidden.add(0)
    for target in (1, 2, 1):
        world.send(0, target)
        world.run_for(1.0)
    first, again = sources(world, 1)
    [other] = sources(world, 2)
    assert first == again != other
    assert first.host == other.host == Nat.HOST
    answer(world, 1, first)
    world.run_for(1.0)
    assert sources(world, 0) == [world.hosts[1].address]


def test_only_the_peer_that_was_spoken_to_may_answer_and_not_for_ever(make_world: MakeWorld) -> None:
    world = make_world(3)
    world.network.nat.hidden.add(0)
    world.send(0, 1)
    world.run_for(1.0)
    [seen] = sources(world, 1)
    answer(world, 2, seen)
    world.run_for(Nat.MAPPING_S + 1.0)
    answer(world, 1, seen)
    world.run_for(1.0)
    assert sources(world, 0) == []
    world.send(0, 1)
    world.run_for(1.0)
    assert sources(world, 1)[-1] != seen, "a mapping that ran out comes back as another"


def test_a_router_that_forgets_lets_through_what_goes_to_the_hosts_own_address_only(
    make_world: MakeWorld,
) -> None:
    world = make_world()
    world.network.nat.hidden.add(0)
    world.send(0, 1)
    world.run_for(1.0)
    world.network.nat.forget()
    answer(world, 1, sources(world, 1)[0])
    world.send(1, 0)
    world.run_for(1.0)
    assert [data for data, *_ in world.node(0).seen("datagram")] == [b"x"]


def test_hosts_before_the_router_are_seen_as_they_are(make_world: MakeWorld) -> None:
    world = make_world()
    world.network.nat.hidden.add(0)
    world.send(1, 0)
    world.run_for(1.0)
    assert sources(world, 0) == [world.hosts[1].address]


def test_a_closed_router_lets_in_answers_only(make_world: MakeWorld) -> None:
    world = make_world(3)
    world.network.nat.hidden.add(0)
    world.network.nat.is_closed = True
    world.send(1, 0)
    world.act(1, OpenStream(1, world.hosts[0].address))
    world.run_for(20.0)
    assert world.node(0).seen("datagram") == world.node(0).seen("accepted") == []
    assert len(world.node(1).seen("closed")) == 1
    world.send(0, 1)
    world.act(0, OpenStream(1, world.hosts[1].address))
    world.run_for(1.0)
    answer(world, 1, sources(world, 1)[0])
    world.run_for(1.0)
    assert [data for data, *_ in world.node(0).seen("datagram")] == [b"answer"]
    assert len(world.node(1).seen("accepted")) == 1
