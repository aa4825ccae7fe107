import pytest

from gpumesh.daemon.addresses import advertised, is_loopback, is_unspecified, resolve
from gpumesh.model import Address

ANY = Address("0.0.0.0", 7977)


def test_what_the_configuration_advertises_is_what_peers_are_told() -> None:
    assert advertised(ANY, "203.0.113.7:9000", []) == Address("203.0.113.7", 9000)
    assert advertised(ANY, "203.0.113.7:0", []) == Address("203.0.113.7", 7977)


def test_a_bound_address_is_advertised_as_it_is() -> None:
    assert advertised(Address("10.0.0.5", 7977), "", []) == Address("10.0.0.5", 7977)


def test_a_loopback_seed_means_a_fleet_on_loopback() -> None:
    assert advertised(ANY, "", [Address("127.0.0.1", 7000)]) == Address("127.0.0.1", 7977)


def test_consul_529_an_ipv4_bind_never_advertises_ipv6() -> None:
    assert ":" not in advertised(ANY, "", [Address("2001:db8::7", 7977)]).host


def test_loopback_and_unspecified_are_told_apart_from_names() -> None:
    assert is_loopback("127.0.0.9")
    assert is_loopback("::1")
    assert not is_loopback("localhost")
    assert is_unspecified("0.0.0.0")
    assert is_unspecified("")
    assert not is_unspecified("127.0.0.1")


async def test_consul_22753_each_call_resolves_anew_and_says_what_does_not() -> None:
    found, failed = await resolve(["127.0.0.1:1234", "[::1]:0", "no-such-host.invalid:7977"], 7977)
    assert Address("127.0.0.1", 1234) in found
    assert Address("::1", 7977) in found
    assert list(failed) == ["no-such-host.invalid:7977"]
    assert "resolve" in failed["no-such-host.invalid:7977"]


@pytest.mark.parametrize("seeds", [[], ["127.0.0.1:1"] * 5])
async def test_seeds_named_twice_are_tried_once(seeds: list[str]) -> None:
    found, failed = await resolve(seeds, 7977)
    assert len(found) == len(set(seeds))
    assert not failed
