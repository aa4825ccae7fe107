"""Real daemons with a router between them that rewrites ports, and forgets them."""

from __future__ import annotations

import time

import pytest

from tests.machines.network import Network, Port
from tests.networks.daemons import PORT, Daemons
from tests.networks.router import Router, note_sources, sources_noted

pytestmark = [pytest.mark.machines, pytest.mark.timeout(900)]
OUTSIDE = ("a", "b", "c")
FIRST_PORTS = (20_000, 21_000, 22_000, 23_000)
BETWEEN_S = 20.0
"""How long the router keeps what it knows: together, a minute."""


@pytest.fixture
def ports(network: Network, daemons: Daemons) -> dict[str, Port]:
    """Three hosts on the switch."""
    made = {name: network.add_port(name) for name in OUTSIDE}
    for name, port in made.items():
        daemons.add(name, port.netns, [f"{made['a'].address}:{PORT}"])
    return made


def test_a_host_that_a_router_lets_nothing_in_to_is_reached_where_it_calls_from_and_shown_so(
    network: Network, ports: dict[str, Port], daemons: Daemons
) -> None:
    router = Router.before("hidden", network)
    daemons.add("hidden", router.hidden_netns, [f"{ports['a'].address}:{PORT}"])
    router.masquerade(FIRST_PORTS[0], forwards=False)
    daemons.start(*daemons.hosts)
    print(f"closed: all ready after {daemons.await_ready():.1f} s")
    daemons.await_seen("transport", {"hidden": "return"}, names=OUTSIDE)
    daemons.await_ready()
    before = suspicions(daemons)
    time.sleep(BETWEEN_S)
    print(f"closed: suspicions in {BETWEEN_S:g} s: {suspicions(daemons) - before}")
    for first_port in FIRST_PORTS[1:]:
        router.masquerade(first_port, forwards=False)
        time.sleep(BETWEEN_S)
    daemons.await_ready()
    print(f"closed: with a router that forgot three times: {suspicions(daemons) - before}")
    assert daemons.failures() == []
    daemons.kill("hidden")
    taken_s = daemons.await_seen("reachability", {"hidden": "failed"})
    print(f"closed: killed, and failed everywhere after {taken_s:.1f} s")


def suspicions(daemons: Daemons) -> int:
    return sum(len(daemons.events(name, "host.suspected")) for name in daemons.running())


@pytest.mark.parametrize("way_in", ["route", "forwarded port"])
def test_a_router_that_rewrites_ports_and_forgets_them_costs_nobody_his_place(
    way_in: str, network: Network, ports: dict[str, Port], daemons: Daemons
) -> None:
    router = Router.before("hidden", network)
    forwards = way_in == "forwarded port"
    advertise = f"{router.port.address}:{PORT}" if forwards else ""
    if not forwards:
        router.lead_in(*ports.values())
    daemons.add("hidden", router.hidden_netns, [f"{ports['a'].address}:{PORT}"], advertise=advertise)
    note_sources(ports["a"])
    router.masquerade(FIRST_PORTS[0], forwards=True)
    daemons.start(*daemons.hosts)
    print(f"{way_in}: all ready after {daemons.await_ready():.1f} s")
    for first_port in FIRST_PORTS[1:]:
        router.masquerade(first_port, forwards=True)
        time.sleep(BETWEEN_S)
        assert daemons.seen("reachability") == dict.fromkeys(
            daemons.hosts, dict.fromkeys(daemons.hosts, "alive")
        )
    assert {port // 1000 * 1000 for port in sources_noted(ports["a"])} >= set(FIRST_PORTS), (
        "datagrams came from each of the router's ranges of ports"
    )
    daemons.await_ready()
    assert daemons.failures() == []
    daemons.kill("hidden")
    taken_s = daemons.await_seen("reachability", {"hidden": "failed"})
    print(f"{way_in}: killed, and failed everywhere after {taken_s:.1f} s")
    assert {name for name in OUTSIDE if daemons.events(name, "host.failed")} == set(OUTSIDE)
