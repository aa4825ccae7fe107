from gpumesh.daemon.addresses import advertised, is_loopback, is_unspecified
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
