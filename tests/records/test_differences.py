from __future__ import annotations

import itertools

from gpumesh.records.bounds import MAX_DIFFERENCES
from gpumesh.records.codec import Digest
from gpumesh.records.differences import EXPIRY_S, GRACE_FLEET_S, GRACE_OWN_S, MAX_REPEAT_S, Differences

DIGEST = Digest(epoch=1, version=3, own_hash=7, fleet_hash=9)


def due_hosts(differences: Differences, now: float) -> list[str]:
    return [host_id for host_id, _ in differences.due(now)]


def note(
    differences: Differences,
    host_id: str = "a",
    *,
    is_own: bool = True,
    is_unheard: bool = False,
    now: float = 100.0,
) -> None:
    differences.note(host_id, DIGEST, is_own=is_own, is_unheard=is_unheard, now=now)


def test_host_of_which_nothing_is_held_is_due_at_once() -> None:
    differences = Differences()
    note(differences, is_unheard=True)
    assert due_hosts(differences, 100.0) == ["a"]


def test_graces_differ_by_whose_record_differs() -> None:
    differences = Differences()
    note(differences, "own")
    note(differences, "fleet", is_own=False)
    assert due_hosts(differences, 100.0 + GRACE_OWN_S) == ["own"]
    assert due_hosts(differences, 100.0 + GRACE_FLEET_S) == ["own", "fleet"]


def test_lasting_difference_keeps_its_first_instant() -> None:
    differences = Differences()
    for tenth in range(20):
        note(differences, is_own=False, now=100.0 + tenth / 10)
    assert due_hosts(differences, 102.0) == ["a"]


def test_matching_peer_is_dropped() -> None:
    differences = Differences()
    note(differences)
    differences.clear("a")
    assert due_hosts(differences, 110.0) == []


def test_state_that_a_sync_did_not_bring_is_asked_for_ever_more_rarely() -> None:
    differences = Differences()
    asked = []
    for second in range(600):
        note(differences, is_unheard=True, now=float(second))
        if due_hosts(differences, float(second)):
            differences.ask("a", was_last_useful=False, now=float(second))
            asked.append(second)
    gaps = [after - before for before, after in itertools.pairwise(asked)]
    assert gaps[0] >= 5
    assert gaps == sorted(gaps)
    assert gaps[-1] >= MAX_REPEAT_S


def test_new_state_of_the_peer_is_asked_for_at_once_again() -> None:
    differences = Differences()
    note(differences, is_unheard=True)
    differences.ask("a", was_last_useful=False, now=100.0)
    newer = Digest(2, 1, 8, 9)
    differences.note("a", newer, is_own=True, is_unheard=True, now=102.0)
    assert due_hosts(differences, 102.0) == ["a"]


def test_syncs_for_own_records_keep_a_distance() -> None:
    differences = Differences()
    for host_id in "abc":
        note(differences, host_id, is_unheard=True)
    differences.ask("a", was_last_useful=True, now=100.0)
    assert due_hosts(differences, 100.5) == []
    assert due_hosts(differences, 101.0) == ["b", "c"]


def test_differences_are_bounded_and_expire() -> None:
    differences = Differences()
    for number in range(MAX_DIFFERENCES + 5):
        note(differences, str(number))
    assert len(differences) == MAX_DIFFERENCES
    assert due_hosts(differences, 101.0 + EXPIRY_S) == []
    assert len(differences) == 0
