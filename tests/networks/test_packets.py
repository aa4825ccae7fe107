"""Real daemons over paths that carry small packets only, or jumble what they carry."""

from __future__ import annotations

import time

import pytest

from tests.machines.network import Network, Port
from tests.networks.cable import JumblingCable
from tests.networks.daemons import PORT, Daemons, until
from tests.networks.router import Router

pytestmark = [pytest.mark.machines, pytest.mark.timeout(900)]
CARDS = ("h100",) * 8
"""Enough that a host's records fill several datagrams."""


@pytest.fixture
def ports(network: Network, daemons: Daemons) -> dict[str, Port]:
    """Three hosts on one switch."""
    made = {name: network.add_port(name) for name in ("a", "b", "c")}
    for name, port in made.items():
        daemons.add(name, port.netns, [f"{made['a'].address}:{PORT}"], cards=CARDS)
    return made


def await_cards(daemons: Daemons) -> float:
    """Wait until each running daemon knows all cards of each, which stand in the hosts' records."""
    expected = dict.fromkeys(daemons.running(), len(CARDS))

    def seen() -> dict[str, dict[str, int]]:
        return {
            observer: {name: len(host["gpus"]) for name, host in daemons.fleet_as_seen_by(observer).items()}
            for observer in daemons.running()
        }

    return until(lambda: all(view == expected for view in seen().values()), seen)


@pytest.mark.parametrize(("mtu_bytes", "host_knows"), [(1280, False), (576, True)])
def test_a_path_that_swallows_larger_packets_and_does_not_say_so_carries_the_fleet(
    mtu_bytes: int, host_knows: bool, network: Network, ports: dict[str, Port], daemons: Daemons
) -> None:
    router = Router.before("hidden", network)
    router.lead_in(*ports.values())
    router.swallow_above(mtu_bytes, host_knows=host_knows)
    daemons.add("hidden", router.hidden_netns, [f"{ports['a'].address}:{PORT}"], cards=CARDS)
    daemons.start("a", "b", "c")
    daemons.await_ready()
    daemons.start("hidden")
    print(f"{mtu_bytes} bytes: all records everywhere after {await_cards(daemons):.1f} s")
    daemons.await_ready()
    time.sleep(20.0)
    assert daemons.failures() == []
    assert daemons.seen("transport") == dict.fromkeys(daemons.hosts, dict.fromkeys(daemons.hosts, "udp"))
    daemons.kill("hidden")
    daemons.await_seen("reachability", {"hidden": "failed"})


def test_doubled_and_reordered_packets_change_nothing(ports: dict[str, Port], daemons: Daemons) -> None:
    with JumblingCable(ports["c"], duplicate=0.3, delay_s=0.05, seed=1) as cable:
        daemons.start(*ports)
        daemons.await_ready()
        await_cards(daemons)
        time.sleep(60.0)
        assert daemons.seen("reachability") == dict.fromkeys(ports, dict.fromkeys(ports, "alive"))
        assert [event for name in ports for event in daemons.events(name, "host.suspected")] == []
        print(f"doubled: {cable.num_doubled}, overtaken: {cable.num_overtaken}")
        assert min(cable.num_doubled, cable.num_overtaken) > 0
        daemons.kill("c")
        daemons.await_seen("reachability", {"a": "alive", "b": "alive", "c": "failed"})
        daemons.start("c")
        daemons.await_seen("reachability", dict.fromkeys(ports, "alive"))
