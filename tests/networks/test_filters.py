"""Filters between real daemons: no datagrams, or one way only."""

from __future__ import annotations

import time

import pytest

from tests.machines.network import Network, Port
from tests.networks.daemons import PORT, Daemons, until

pytestmark = [pytest.mark.machines, pytest.mark.timeout(900)]
NAMES = ("a", "b", "c", "d")
OTHERS = ("a", "b", "c")
WHILE_S = 60.0


@pytest.fixture
def ports(network: Network, daemons: Daemons) -> dict[str, Port]:
    """Four hosts on one switch; all begin by the first."""
    made = {name: network.add_port(name) for name in NAMES}
    for name, port in made.items():
        daemons.add(name, port.netns, [f"{made['a'].address}:{PORT}"])
    return made


def everybody_alive(daemons: Daemons) -> dict[str, dict[str, str]]:
    names = daemons.running()
    return dict.fromkeys(names, dict.fromkeys(names, "alive"))


def transport_findings(daemons: Daemons, name: str) -> list[str]:
    findings = daemons.hosts[name].get("/v1/status")["findings"]
    return [finding["reason"] for finding in findings if finding["check"] == "gossip-transport"]


def test_a_host_whose_udp_is_blocked_stays_and_is_shown_so_until_it_is_open_again(
    ports: dict[str, Port], daemons: Daemons
) -> None:
    daemons.start(*NAMES)
    daemons.await_ready()
    ports["d"].drop(arriving=["meta l4proto udp"], leaving=["meta l4proto udp"])
    daemons.await_seen("transport", {"d": "stream"}, names=OTHERS)
    daemons.await_seen("transport", dict.fromkeys(OTHERS, "stream"), names="d")
    time.sleep(WHILE_S)
    assert daemons.seen("reachability") == everybody_alive(daemons)
    assert daemons.failures() == []
    assert set(daemons.seen("transport", "a")["a"].items()) >= {("b", "udp"), ("c", "udp"), ("d", "stream")}
    until(lambda: transport_findings(daemons, "d") != [], lambda: "a finding on the host itself")
    assert "goes by TCP" in transport_findings(daemons, "d")[0]
    assert transport_findings(daemons, "a") == []
    ports["d"].heal()
    daemons.await_seen("transport", {"d": "udp"}, names=OTHERS)
    daemons.await_seen("transport", dict.fromkeys(OTHERS, "udp"), names="d")
    until(lambda: transport_findings(daemons, "d") == [], lambda: "the finding gone")
    daemons.await_ready()
    assert daemons.failures() == []


def test_a_host_without_udp_from_its_start_joins_by_stream_sees_deaths_and_is_seen_to_die(
    ports: dict[str, Port], daemons: Daemons
) -> None:
    ports["d"].drop(arriving=["meta l4proto udp"], leaving=["meta l4proto udp"])
    daemons.start(*NAMES)
    print(f"all ready after {daemons.await_ready():.1f} s, one of them by streams alone")
    daemons.await_seen("transport", {"d": "stream"}, names=OTHERS)
    daemons.kill("b")
    taken_s = daemons.await_seen("reachability", {"a": "alive", "b": "failed", "c": "alive", "d": "alive"})
    print(f"a death among the others: known everywhere after {taken_s:.1f} s")
    daemons.kill("d")
    taken_s = daemons.await_seen("reachability", {"a": "alive", "c": "alive", "d": "failed"})
    print(f"the death of the host without UDP: known everywhere after {taken_s:.1f} s")


def test_a_link_that_carries_nothing_one_way_fails_nobody(ports: dict[str, Port], daemons: Daemons) -> None:
    daemons.start(*NAMES)
    daemons.await_ready()
    ports["d"].drop_from([ports["c"].address])  # streams between the two die with it
    time.sleep(WHILE_S)
    assert daemons.seen("reachability") == everybody_alive(daemons)
    assert daemons.failures() == []
    ports["d"].heal()
    daemons.kill("c")
    daemons.await_seen("reachability", {"a": "alive", "b": "alive", "c": "failed", "d": "alive"})


def test_a_host_that_hears_nobody_takes_no_work_accuses_nobody_and_returns(
    ports: dict[str, Port], daemons: Daemons
) -> None:
    daemons.start(*NAMES)
    daemons.await_ready()
    ports["d"].drop(arriving=['iifname "eth0"'])
    # Its own words still go out: they may hold off the verdict for long, but say that it hears nobody.
    until(lambda: states_of_d(daemons) <= {"isolated", "failed"}, lambda: daemons.seen("state"))
    give_up_at = time.monotonic() + WHILE_S
    while time.monotonic() < give_up_at:
        assert "ready" not in states_of_d(daemons)
        time.sleep(1.0)
    ports["d"].heal()
    daemons.await_ready()
    accused = {event["host"] for name in NAMES for event in daemons.events(name, "host.failed")}
    assert accused <= {"d"}
    assert daemons.events("d", "host.failed") == []


def states_of_d(daemons: Daemons) -> set[str]:
    """What the others show of it."""
    return {view["d"] for view in daemons.seen("state", OTHERS).values()}
