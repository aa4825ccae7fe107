"""Real daemons on IPv6, and on both families, with bracketed literals for seeds."""

from __future__ import annotations

import pytest

from tests.machines.network import Network, Port
from tests.networks.daemons import PORT, Daemons

pytestmark = [pytest.mark.machines, pytest.mark.timeout(600)]
NAMES = ("a", "b", "c")
V6 = f"[::]:{PORT}"


@pytest.fixture
def ports(network: Network) -> dict[str, Port]:
    return {name: network.add_port(name) for name in NAMES}


def check_life_and_death(daemons: Daemons) -> None:
    daemons.start(*NAMES)
    print(f"all ready after {daemons.await_ready():.1f} s")
    assert daemons.seen("transport") == dict.fromkeys(NAMES, dict.fromkeys(NAMES, "udp"))
    assert daemons.failures() == []
    daemons.kill("c")
    taken_s = daemons.await_seen("reachability", {"a": "alive", "b": "alive", "c": "failed"})
    print(f"killed, and failed everywhere after {taken_s:.1f} s")
    assert "its daemon died" in daemons.events("a", "host.failed")[0]["reason"]


def test_a_fleet_of_ipv6_alone_begins_by_a_bracketed_literal(
    ports: dict[str, Port], daemons: Daemons
) -> None:
    for name, port in ports.items():
        daemons.add(name, port.netns, [f"[{ports['a'].address_v6}]:{PORT}"], bind=V6)
        port.drop(arriving=["meta nfproto ipv4 iifname != lo"])
    check_life_and_death(daemons)
    addresses = daemons.seen("address", "a")["a"]
    assert addresses == {name: f"[{port.address_v6}]:{PORT}" for name, port in ports.items()}


def test_hosts_that_listen_on_both_families_meet_by_seeds_of_either(
    ports: dict[str, Port], daemons: Daemons
) -> None:
    v4, v6 = (f"{ports['a'].address}:{PORT}", f"[{ports['a'].address_v6}]:{PORT}")
    for name, seed in zip(NAMES, (v6, v4, v6), strict=True):
        daemons.add(name, ports[name].netns, [seed], bind=V6)
    check_life_and_death(daemons)
    addresses = daemons.seen("address", "a")["a"]
    assert addresses == {
        "a": v6,
        "b": f"{ports['b'].address}:{PORT}",
        "c": f"[{ports['c'].address_v6}]:{PORT}",
    }


def test_an_ipv4_host_and_an_ipv6_host_that_cannot_meet_are_both_members_by_one_that_has_both(
    ports: dict[str, Port], daemons: Daemons
) -> None:
    v4, v6 = (f"{ports['a'].address}:{PORT}", f"[{ports['a'].address_v6}]:{PORT}")
    daemons.add("a", ports["a"].netns, [v4, v6], bind=V6, advertise=v4)
    daemons.add("b", ports["b"].netns, [v4])
    daemons.add("c", ports["c"].netns, [v6], bind=f"[{ports['c'].address_v6}]:{PORT}")
    daemons.start(*NAMES)
    daemons.await_ready()
