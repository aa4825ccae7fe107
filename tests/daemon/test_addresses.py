from collections.abc import Callable

import pytest

from gpumesh.daemon.addresses import Known, advertised, is_loopback, is_unspecified, unheard
from gpumesh.model import Address
from tests.daemon.namespace import IPV4_ONLY, IPV6_ONLY, python_in_a_network_of_its_own

ANY, BOTH = Address("0.0.0.0", 7977), Address("::", 7977)
FOUR, SIX = "10.0.0.5", "2001:db8::5"
SEED_FOUR, SEED_SIX = Address("10.0.0.7", 7977), Address("2001:db8::7", 7977)
NOBODY = Known()
MEET = """
import socket
from gpumesh.config import parse
from gpumesh.config.fields import parse_endpoint
from gpumesh.daemon.addresses import Known, advertised
from gpumesh.daemon.sockets import GossipSocket
from gpumesh.model import Address

bound = GossipSocket(Address(*parse_endpoint(parse("").gossip.bind)))
told = advertised(bound.address, "", Known())
with socket.socket(socket.AF_INET6 if ":" in told.host else socket.AF_INET, socket.SOCK_DGRAM) as peer:
    peer.settimeout(20)
    peer.sendto(b"ping", tuple(told))
    ((data, source),) = bound.receive_all()
    bound.send(b"pong", source)
    print(told, source.host, data.decode(), peer.recv(100).decode())
"""
WARN = """
import logging
from gpumesh.daemon.addresses import Known
from gpumesh.daemon.whereabouts import Whereabouts
from gpumesh.model import Address

logging.basicConfig(format="%(message)s")
logging.getLogger().handlers[0].setStream(__import__("sys").stdout)
print(Whereabouts(Address("0.0.0.0", 7977), "", Known()).address)
"""
TEMPORARY = (
    "ip link set lo up; ip link add one type veth peer name other; "
    "echo 2 > /proc/sys/net/ipv6/conf/one/use_tempaddr; ip link set other up; ip link set one up; "
    "ip address add 2001:db8::5/64 dev one nodad mngtmpaddr; ip route add default dev one; "
    "ip -6 route add default dev one"
)
PLAIN_AND_LASTING = """
import socket, time
from gpumesh.daemon.addresses import route_source
from gpumesh.model import Address

def plain():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        probe.connect(("2001:db8:1::1", 9))
        return probe.getsockname()[0]

give_up_at = time.monotonic() + 20
while plain() == "2001:db8::5" and time.monotonic() < give_up_at:
    time.sleep(0.05)
print(plain(), route_source(Address("2001:db8:1::1", 9)))
"""


def routes(*sources: str) -> Callable[[Address], str | None]:
    """A kernel with a route by each of the families of these addresses."""
    by_family = {":" in source: source for source in sources}
    return lambda target: by_family.get(":" in target.host)


def test_what_the_configuration_advertises_is_what_peers_are_told() -> None:
    assert advertised(ANY, "203.0.113.7:9000", NOBODY) == Address("203.0.113.7", 9000)
    assert advertised(ANY, "203.0.113.7:0", NOBODY) == Address("203.0.113.7", 7977)


def test_a_bound_address_is_advertised_as_it_is() -> None:
    assert advertised(Address("10.0.0.5", 7977), "", NOBODY) == Address("10.0.0.5", 7977)


def test_a_loopback_seed_means_a_fleet_on_loopback() -> None:
    assert advertised(ANY, "", Known([Address("127.0.0.1", 7000)])) == Address("127.0.0.1", 7977)


@pytest.mark.parametrize("sources", [(), (SIX,), (FOUR, SIX)])
@pytest.mark.parametrize("interfaces", [[], [SIX], [SIX, FOUR]])
@pytest.mark.parametrize("seeds", [[], [SEED_SIX]])
def test_consul_529_an_ipv4_bind_never_advertises_ipv6(
    sources: tuple[str, ...], interfaces: list[str], seeds: list[Address]
) -> None:
    told = advertised(ANY, "", Known(seeds), route=routes(*sources), interfaces=lambda: interfaces)
    assert told.host == (FOUR if FOUR in (*sources, *interfaces) else "127.0.0.1")


@pytest.mark.parametrize(
    ("seeds", "sources", "interfaces", "told"),
    [
        ([], (FOUR, SIX), [], FOUR),
        ([SEED_SIX], (FOUR, SIX), [], SIX),
        ([SEED_SIX, SEED_FOUR], (FOUR, SIX), [], FOUR),
        ([SEED_SIX, SEED_FOUR], (SIX,), [], SIX),
        ([SEED_SIX], (FOUR,), [], FOUR),
        ([SEED_FOUR], (SIX,), [], SIX),
        ([], (SIX,), [], SIX),
        ([], (), [SIX], SIX),
        ([], (), [], "127.0.0.1"),
    ],
)
def test_a_bind_to_both_families_advertises_ipv4_where_the_host_has_it_unless_all_seeds_are_ipv6(
    seeds: list[Address], sources: tuple[str, ...], interfaces: list[str], told: str
) -> None:
    found = advertised(BOTH, "", Known(seeds), route=routes(*sources), interfaces=lambda: interfaces)
    assert found == Address(told, 7977)


def test_the_order_of_seeds_and_peers_moves_nobody() -> None:
    def told(known: Known, present: Address | None, *sources: str) -> str:
        return advertised(BOTH, "", known, present, route=routes(*sources), interfaces=list).host

    four = Address(FOUR, 7977)
    for pair in ([SEED_FOUR, SEED_SIX], [SEED_SIX, SEED_FOUR]):
        for known in (Known(pair), Known(peers=pair)):
            assert [told(known, present, FOUR, SIX) for present in (None, four)] == [FOUR, FOUR]
    assert told(Known(peers=[SEED_SIX]), four, FOUR, SIX) == FOUR, "a peer of IPv6 moves nobody"
    assert told(Known([SEED_SIX], [SEED_FOUR]), four, FOUR, SIX) == FOUR, "nor does an answer without IPv4"
    assert told(Known([SEED_SIX], [SEED_FOUR]), None, FOUR, SIX) == SIX, "but at the start the seeds decide"


def test_a_host_whose_ipv4_comes_late_or_goes_moves_to_the_family_it_has() -> None:
    known = Known([SEED_SIX, SEED_FOUR])
    late = advertised(BOTH, "", known, None, route=routes(SIX), interfaces=list)
    assert late.host == SIX
    there = advertised(BOTH, "", known, late, route=routes(FOUR, SIX), interfaces=list)
    assert there.host == FOUR
    assert advertised(BOTH, "", known, there, route=routes(SIX), interfaces=list).host == SIX


def test_seeds_that_resolve_late_to_ipv6_alone_lead_to_it() -> None:
    at_start = advertised(BOTH, "", NOBODY, route=routes(FOUR, SIX), interfaces=list)
    assert at_start.host == FOUR
    later = advertised(BOTH, "", Known([SEED_SIX]), at_start, route=routes(FOUR, SIX), interfaces=list)
    assert later.host == SIX


def test_an_address_is_kept_for_as_long_as_a_way_to_the_fleet_leaves_from_it() -> None:
    first, second = Address("10.1.0.7", 7977), Address("10.2.0.7", 7977)
    ways = {first: "10.1.0.5", second: "10.2.0.5"}
    told = advertised(BOTH, "", Known(peers=[first, second]), route=ways.get, interfaces=list)
    assert told.host == "10.1.0.5"
    assert advertised(BOTH, "", Known(peers=[second, first]), told, route=ways.get, interfaces=list) == told
    del ways[first]
    moved = advertised(BOTH, "", Known(peers=[second, first]), told, route=ways.get, interfaces=list)
    assert moved.host == "10.2.0.5"


@pytest.mark.parametrize("source", ["192.0.0.2", "169.254.7.7", "127.0.0.1"])
def test_an_ipv4_source_that_no_peer_reaches_is_no_way(source: str) -> None:
    known = Known([SEED_SIX, SEED_FOUR])
    assert advertised(BOTH, "", known, route=routes(source, SIX), interfaces=list).host == SIX


def test_a_fleet_on_one_link_is_told_the_links_addresses() -> None:
    known = Known([Address("169.254.7.8", 7977)])
    assert advertised(BOTH, "", known, route=routes("169.254.7.7"), interfaces=list).host == "169.254.7.7"


def test_a_temporary_ipv6_address_is_not_told_where_there_is_a_lasting_one() -> None:
    said = python_in_a_network_of_its_own(TEMPORARY, PLAIN_AND_LASTING)
    plain, lasting = said.split()
    assert plain != "2001:db8::5", "the kernel itself prefers the temporary one"
    assert lasting == "2001:db8::5"


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
