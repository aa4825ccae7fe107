from collections.abc import Callable

import pytest

from gpumesh.daemon.addresses import advertised, is_loopback, is_unspecified, unheard
from gpumesh.model import Address
from tests.daemon.namespace import IPV4_ONLY, IPV6_ONLY, python_in_a_network_of_its_own

ANY, BOTH = Address("0.0.0.0", 7977), Address("::", 7977)
FOUR, SIX = "10.0.0.5", "2001:db8::5"
SEED_SIX = Address("2001:db8::7", 7977)
MEET = """
import socket
from gpumesh.config import parse
from gpumesh.config.fields import parse_endpoint
from gpumesh.daemon.addresses import advertised
from gpumesh.daemon.sockets import GossipSocket
from gpumesh.model import Address

bound = GossipSocket(Address(*parse_endpoint(parse("").gossip.bind)))
told = advertised(bound.address, "", [])
with socket.socket(socket.AF_INET6 if ":" in told.host else socket.AF_INET, socket.SOCK_DGRAM) as peer:
    peer.settimeout(20)
    peer.sendto(b"ping", tuple(told))
    ((data, source),) = bound.receive_all()
    bound.send(b"pong", source)
    print(told, source.host, data.decode(), peer.recv(100).decode())
"""
WARN = """
import logging
from gpumesh.daemon.whereabouts import Whereabouts
from gpumesh.model import Address

logging.basicConfig(format="%(message)s")
logging.getLogger().handlers[0].setStream(__import__("sys").stdout)
print(Whereabouts(Address("0.0.0.0", 7977), "", []).address)
"""


def routes(*sources: str) -> Callable[[Address], str | None]:
    """A kernel with a route by each of the families of these addresses."""
    by_family = {":" in source: source for source in sources}
    return lambda target: by_family.get(":" in target.host)


def test_what_the_configuration_advertises_is_what_peers_are_told() -> None:
    assert advertised(ANY, "203.0.113.7:9000", []) == Address("203.0.113.7", 9000)
    assert advertised(ANY, "203.0.113.7:0", []) == Address("203.0.113.7", 7977)


def test_a_bound_address_is_advertised_as_it_is() -> None:
    assert advertised(Address("10.0.0.5", 7977), "", []) == Address("10.0.0.5", 7977)


def test_a_loopback_seed_means_a_fleet_on_loopback() -> None:
    assert advertised(ANY, "", [Address("127.0.0.1", 7000)]) == Address("127.0.0.1", 7977)


@pytest.mark.parametrize("sources", [(), (SIX,), (FOUR, SIX)])
@pytest.mark.parametrize("interfaces", [[], [SIX], [SIX, FOUR]])
@pytest.mark.parametrize("seeds", [[], [SEED_SIX]])
def test_consul_529_an_ipv4_bind_never_advertises_ipv6(
    sources: tuple[str, ...], interfaces: list[str], seeds: list[Address]
) -> None:
    told = advertised(ANY, "", seeds, route=routes(*sources), interfaces=lambda: interfaces)
    assert told.host == (FOUR if FOUR in (*sources, *interfaces) else "127.0.0.1")


@pytest.mark.parametrize(
    ("seeds", "sources", "interfaces", "told"),
    [
        ([], (FOUR, SIX), [], FOUR),
        ([SEED_SIX], (FOUR, SIX), [], SIX),
        ([], (SIX,), [], SIX),
        ([], (), [SIX], SIX),
        ([], (), [], "127.0.0.1"),
    ],
)
def test_a_bind_to_both_families_advertises_the_one_that_leads_to_the_seeds_or_anywhere(
    seeds: list[Address], sources: tuple[str, ...], interfaces: list[str], told: str
) -> None:
    found = advertised(BOTH, "", seeds, route=routes(*sources), interfaces=lambda: interfaces)
    assert found == Address(told, 7977)


@pytest.mark.parametrize(
    ("network", "host"), [(IPV6_ONLY, "2001:db8::5"), (IPV4_ONLY, "10.0.0.5")], ids=["IPv6", "IPv4"]
)
def test_consul_529_the_default_configuration_is_reached_where_only_one_family_is(
    network: str, host: str
) -> None:
    told = Address(host, 7977)
    assert python_in_a_network_of_its_own(network, MEET) == f"{told} {host} ping pong"


def test_a_bind_that_hears_no_address_of_this_host_is_told_with_the_setting_that_does() -> None:
    said = python_in_a_network_of_its_own(IPV6_ONLY, WARN)
    assert said.endswith("\n127.0.0.1:7977")
    assert "IPv6 only (2001:db8::5)" in said
    assert 'set gossip.bind = "[::]:7977"' in said


def test_only_a_bind_to_all_addresses_of_a_family_that_is_not_there_hears_nothing() -> None:
    assert unheard(ANY, lambda: [SIX]) == (SIX,)
    assert unheard(ANY, lambda: [FOUR, SIX]) == ()
    assert unheard(ANY, list) == ()
    assert unheard(BOTH, lambda: [SIX]) == ()
    assert unheard(Address(FOUR, 7977), lambda: [SIX]) == ()


def test_loopback_and_unspecified_are_told_apart_from_names() -> None:
    assert is_loopback("127.0.0.9")
    assert is_loopback("::1")
    assert not is_loopback("localhost")
    assert is_unspecified("0.0.0.0")
    assert is_unspecified("")
    assert not is_unspecified("127.0.0.1")
