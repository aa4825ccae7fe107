"""The address that peers use follows the machine's network."""

import asyncio
from functools import partial

import pytest

from gpumesh.daemon import whereabouts
from gpumesh.daemon.addresses import Known, advertised
from gpumesh.daemon.whereabouts import Whereabouts
from gpumesh.model import Address

ANY, BOTH = Address("0.0.0.0", 7977), Address("::", 7977)
NOBODY = Known()
LOOPBACK, FIRST, SECOND = (Address(host, 7977) for host in ("127.0.0.1", "10.0.0.5", "10.0.0.9"))


class Network:
    """The routes of a machine whose network changes."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def find(self, bind: Address, advertise: str, _known: Known, _present: Address | None) -> Address:
        return Address(advertise, bind.port) if advertise else self.address


def test_a_network_that_comes_up_late_is_taken_at_once_and_another_address_once_it_stays() -> None:
    network = Network(LOOPBACK)
    here = Whereabouts(ANY, "", NOBODY, network.find)
    assert here.address == LOOPBACK
    assert not here.look(NOBODY)
    network.address = FIRST
    assert [here.look(NOBODY) for _ in range(3)] == [True, False, False]
    network.address = SECOND
    assert [here.look(NOBODY) for _ in range(3)] == [False, True, False]
    assert here.address == SECOND


def test_an_address_that_shows_for_a_moment_or_a_network_that_goes_moves_nobody() -> None:
    network = Network(FIRST)
    here = Whereabouts(ANY, "", NOBODY, network.find)
    for address in (SECOND, FIRST, SECOND, LOOPBACK, LOOPBACK, SECOND, FIRST):
        network.address = address
        assert not here.look(NOBODY)
    assert here.address == FIRST


def test_a_host_of_both_families_stays_where_it_is_whichever_peer_or_answer_comes_first() -> None:
    four, six = Address("10.0.0.7", 7977), Address("2001:db8::7", 7977)
    routes = {four: FIRST.host, six: "2001:db8::5", Address("192.0.2.1", 9): FIRST.host}
    find = partial(advertised, route=routes.get, interfaces=list)
    here = Whereabouts(BOTH, "", Known(peers=[six, four]), find)
    assert here.address == FIRST
    met = [Known(peers=[four, six]), Known(peers=[six]), Known([six], [four]), Known([six, four])]
    assert not any(here.look(known) for known in met for _ in range(3))
    assert here.address == FIRST
    routes = {six: "2001:db8::5"}
    here = Whereabouts(BOTH, "", Known([six, four]), partial(advertised, route=routes.get, interfaces=list))
    routes[four] = FIRST.host
    assert [here.look(Known([six, four])) for _ in range(3)] == [False, True, False], "IPv4 came late"


@pytest.mark.parametrize(("bind", "advertise"), [(ANY, "192.0.2.7"), (FIRST, "")])
def test_a_configured_address_never_changes(bind: Address, advertise: str) -> None:
    network = Network(FIRST)
    here = Whereabouts(bind, advertise, NOBODY, network.find)
    before = here.address
    network.address = SECOND
    assert not any(here.look(NOBODY) for _ in range(4))
    assert here.address == before


async def test_a_move_is_told_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whereabouts, "LOOK_EVERY_S", 0.001)
    network = Network(FIRST)
    here = Whereabouts(ANY, "", NOBODY, network.find)
    network.address = SECOND
    told: asyncio.Queue[Address] = asyncio.Queue()
    watching = asyncio.create_task(here.watch(Known, told.put_nowait))
    assert await asyncio.wait_for(told.get(), 20) == SECOND
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
