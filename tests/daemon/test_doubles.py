"""Findings of conflicts: of this host's own, with the other side named, for as long as they are heard of."""

from dataclasses import replace

import pytest

from gpumesh.daemon.doubles import CONFLICT_CLEARS_S, Doubles
from gpumesh.model import Address, Event, HostFacts, HostState, HostView, Reachability, Scalar, View


def view() -> View:
    """Return a fleet in which the other side's name is known."""
    here = Address("10.0.0.1", 7977)
    hosts = tuple(
        HostView(
            host_id=f"id-{number}",
            address=here,
            epoch=1,
            incarnation=0,
            reachability=Reachability.ALIVE,
            state=HostState.READY,
            reason="",
            state_since=0.0,
            evidence_age_s=0.0,
            facts=HostFacts(f"pc{number:02d}", "boot"),
            is_self=number == 1,
        )
        for number in (1, 2)
    )
    return View("id-1", 0.0, "fleet", hosts)


def conflict(shared: str, address: str, *, is_here: bool = True, kind: str = "host.conflict") -> Event:
    fields: dict[str, Scalar] = {"shared": shared, "address": address, "is_here": is_here}
    return Event(kind, 1.8e9, "id-2", "pc02", "host", "two of them", fields)


@pytest.mark.parametrize(
    ("shared", "words", "advice"),
    [
        ("identity", "another daemon runs as this host (id-2)", "identity.json"),
        ("address", "this host and pc02 (id-2) both claim 10.0.0.2:7977", "gossip.advertise"),
    ],
)
def test_a_conflict_about_this_host_is_a_finding_that_names_the_other_side(
    shared: str, words: str, advice: str
) -> None:
    doubles = Doubles()
    doubles.handle_event(conflict(shared, "10.0.0.2:7977"), 10.0)
    [(check, reason, told)] = doubles.standing(view, 10.0)
    assert check == f"host-{shared}"
    assert words in reason
    assert "10.0.0.2:7977" in reason
    assert advice in told


def test_a_finding_of_a_conflict_stands_while_it_is_repeated_and_goes_afterwards() -> None:
    doubles = Doubles()
    for at in (0.0, 60.0, 170.0):
        doubles.handle_event(conflict("identity", "10.0.0.2:7977"), at)
    last = 170.0 + CONFLICT_CLEARS_S
    assert [len(list(doubles.standing(view, at))) for at in (171.0, last - 1.0, last)] == [1, 1, 0]


def test_a_host_whose_name_has_not_come_yet_is_named_by_its_id() -> None:
    doubles = Doubles()
    doubles.handle_event(replace(conflict("address", "10.0.0.2:7977"), host_id="id-9"), 0.0)
    [(_, reason, _)] = doubles.standing(view, 0.0)
    assert reason == "this host and id-9 both claim 10.0.0.2:7977"


def test_both_kinds_of_conflict_stand_beside_each_other() -> None:
    doubles = Doubles()
    for shared in ("identity", "address"):
        doubles.handle_event(conflict(shared, "10.0.0.2:7977"), 0.0)
    assert {check for check, _, _ in doubles.standing(view, 1.0)} == {"host-identity", "host-address"}


@pytest.mark.parametrize(
    "event",
    [
        conflict("address", "10.0.0.2:7977", is_here=False),
        conflict("address", "10.0.0.2:7977", kind="host.failed"),
        Event("host.conflict", 1.8e9, "id-2", "pc02", "host", "of an unknown kind"),
    ],
)
def test_conflicts_of_others_and_other_events_are_no_finding_here(event: Event) -> None:
    doubles = Doubles()
    doubles.handle_event(event, 0.0)
    assert list(doubles.standing(view, 0.0)) == []
