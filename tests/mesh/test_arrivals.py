from __future__ import annotations

from gpumesh.mesh.arrivals import MAX_WAIT_S, MAX_WAITING, Arrivals
from gpumesh.model import Address, Reachability
from gpumesh.swim.ports import MemberChanged


def met(host_id: str) -> MemberChanged:
    return MemberChanged(host_id, Address("10.0.0.1", 1), 1, 1, None, Reachability.ALIVE, "said hello")


def test_arrival_waits_for_its_name_and_is_told_with_its_own_instant() -> None:
    arrivals = Arrivals()
    assert arrivals.hold(met("a"), 100.0) is None
    assert arrivals.due(lambda _host_id: False, 101.0) == []
    (arrival,) = arrivals.due(lambda host_id: host_id == "a", 102.0)
    assert arrival.at == 100.0
    assert arrivals.due(lambda _host_id: True, 103.0) == []


def test_arrival_is_told_without_a_name_in_the_end() -> None:
    arrivals = Arrivals()
    arrivals.hold(met("a"), 100.0)
    assert arrivals.next_deadline() == 100.0 + MAX_WAIT_S
    assert len(arrivals.due(lambda _host_id: False, 100.0 + MAX_WAIT_S)) == 1


def test_crowd_is_told_at_once_instead_of_waiting() -> None:
    arrivals = Arrivals()
    for number in range(MAX_WAITING):
        assert arrivals.hold(met(str(number)), 100.0) is None
    assert arrivals.hold(met("one more"), 100.0) is not None
    assert len(arrivals) == MAX_WAITING
