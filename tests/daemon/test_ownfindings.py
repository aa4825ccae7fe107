"""What the daemon finds about itself and its place in the fleet."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gpumesh.daemon.ownfindings import FLEET_EVERY_S, KEY_CLEARS_S, OwnFindings
from gpumesh.daemon.statedir import StateDirectory
from gpumesh.model import Address, Finding, HostFacts, HostState, HostView, Reachability, Severity, View

UNIX = 1.8e9


@dataclass
class Keys:
    key_ids: tuple[str, ...] = ("aaaa",)
    unknown_key_id: str | None = None


def host(number: int, name: str = "", *, is_self: bool = False) -> HostView:
    return HostView(
        host_id=f"id-{number}",
        address=Address(f"10.0.0.{number}", 7977),
        epoch=1,
        incarnation=0,
        reachability=Reachability.ALIVE,
        state=HostState.READY,
        reason="",
        state_since=0.0,
        evidence_age_s=0.0,
        facts=HostFacts(name or f"host-{number}", "boot"),
        is_self=is_self,
    )


def view(*others: HostView) -> View:
    return View("id-1", 0.0, "fleet", (host(1, is_self=True), *others))


@pytest.fixture
def own(tmp_path: Path) -> OwnFindings:
    return OwnFindings(StateDirectory(tmp_path), Keys())


def standing(own: OwnFindings, seen: View, at: float | None = None) -> list[Finding]:
    """Ask at an instant, without one at the next at which the fleet is looked at."""
    instant = own._fleet_at + FLEET_EVERY_S if at is None else at
    instant = max(instant, 0.0)
    return list(own.standing(dict, lambda: seen, instant, UNIX + instant))


def test_alertmanager_1564_a_host_that_no_datagram_reaches_says_so(own: OwnFindings) -> None:
    by_stream = replace(host(2), transport="stream")
    [found] = standing(own, view(by_stream, replace(host(3), transport="stream")))
    assert (found.check, found.severity) == ("gossip-transport", Severity.INFO)
    assert "all 2 other hosts goes by TCP" in found.reason
    assert "UDP" in found.advice
    assert standing(own, view(by_stream, host(3))) == [], "one filtered peer is that peer's finding"
    gone = replace(host(3), reachability=Reachability.FAILED)
    assert [item.check for item in standing(own, view(by_stream, gone))] == ["gossip-transport"]
    assert standing(own, view()) == []


def test_two_living_hosts_of_one_name_are_told_with_ids_and_addresses(own: OwnFindings) -> None:
    [found] = standing(own, view(host(2, "HOST-1"), host(3)))
    assert found.check == "host-name"
    assert "id-2 at 10.0.0.2:7977" in found.reason
    many = [host(number, "host-1") for number in range(2, 9)]
    assert "and 4 more" in standing(own, view(*many))[0].reason


def test_memberlist_157_the_former_self_of_a_rebuilt_host_is_no_namesake(own: OwnFindings) -> None:
    former = replace(host(2, "host-1"), reachability=Reachability.FAILED)
    assert standing(own, view(former)) == []


def test_a_finding_keeps_the_instant_at_which_it_arose_for_as_long_as_it_stands(own: OwnFindings) -> None:
    twin = view(host(2, "host-1"))
    assert [item.since for at in (0.0, 5.0, 40.0) for item in standing(own, twin, at)] == [UNIX] * 3
    assert standing(own, view(), 80.0) == []
    assert [item.since for item in standing(own, twin, 120.0)] == [UNIX + 120.0]


def test_the_fleet_is_looked_at_now_and_then_only(own: OwnFindings) -> None:
    looks: list[float] = []

    def look() -> View:
        looks.append(now)
        return view()

    for now in (float(second) for second in range(0, 91, 5)):
        own.standing(dict, look, now, UNIX + now)
    assert looks == [0.0, 30.0, 60.0, 90.0]


def test_serf_579_a_key_that_is_lacked_is_named_until_nobody_sends_under_it(tmp_path: Path) -> None:
    own = OwnFindings(StateDirectory(tmp_path), Keys(unknown_key_id="bbbb"))
    refused = {"drops/unknown_key": 3.0}
    [found] = own.standing(lambda: refused, view, 10.0, UNIX)
    assert found.check == "fleet-key"
    assert "key bbbb" in found.reason
    assert "key aaaa" in found.reason
    assert own.standing(lambda: refused, view, 10.0 + KEY_CLEARS_S + 1.0, UNIX) == ()
