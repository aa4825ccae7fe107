from __future__ import annotations

from gpumesh.config import LeaseConfig
from gpumesh.lease.brake import Brake
from gpumesh.lease.table import Judgement, LeaseTable, Sighting
from gpumesh.model import Reachability

HOST = "host"


def table() -> LeaseTable:
    return LeaseTable(LeaseConfig())


def sighting(
    reachability: Reachability = Reachability.ALIVE, *, evidence_at: float, epoch: int = 1, beat: int = 1
) -> Sighting:
    return Sighting(HOST, epoch, reachability, evidence_at, beat, "so it is said")


def judge(leases: LeaseTable, seen: Sighting, now: float, version: int = 1) -> Judgement:
    return leases.judge(seen, version, now)


def test_lease_lasts_one_ttl_from_the_last_evidence() -> None:
    leases = table()
    held = judge(leases, sighting(evidence_at=100.0), 129.9)
    assert held.reachability is Reachability.ALIVE
    assert held.changes_at == 130.0
    expired = judge(leases, sighting(evidence_at=100.0), 130.0)
    assert expired.reachability is Reachability.FAILED
    assert "30 s" in expired.reason


def test_membership_is_believed_when_it_is_faster() -> None:
    judgement = judge(table(), sighting(Reachability.FAILED, evidence_at=100.0), 105.0)
    assert (judgement.reachability, judgement.reason) == (Reachability.FAILED, "so it is said")


def test_goodbye_is_never_a_failure() -> None:
    judgement = judge(table(), sighting(Reachability.LEFT, evidence_at=100.0), 10_000.0)
    assert judgement.reachability is Reachability.LEFT


def test_standing_beat_across_contacts_is_suspect_and_then_failed() -> None:
    leases = table()
    for now in (100.0, 105.0, 110.0, 115.0, 120.0):
        leases.handle_contact(HOST, 1, 7, now)
    assert judge(leases, sighting(evidence_at=120.0, beat=7), 120.0).reachability is Reachability.ALIVE
    leases.handle_contact(HOST, 1, 7, 121.0)
    stalled = judge(leases, sighting(evidence_at=121.0, beat=7), 121.0)
    assert stalled.reachability is Reachability.SUSPECT
    assert "heartbeat has stood still" in stalled.reason
    assert judge(leases, sighting(evidence_at=130.0, beat=7), 130.0).reachability is Reachability.FAILED
    leases.handle_contact(HOST, 1, 8, 131.0)
    assert judge(leases, sighting(evidence_at=131.0, beat=8), 131.0).reachability is Reachability.ALIVE


def test_own_gap_does_not_make_anothers_beat_stand() -> None:
    leases = table()
    leases.handle_contact(HOST, 1, 7, 100.0)
    leases.handle_gap(290.0)
    leases.handle_contact(HOST, 1, 7, 391.0)
    assert judge(leases, sighting(evidence_at=391.0, beat=7), 391.0).reachability is Reachability.ALIVE
    leases.handle_contact(HOST, 1, 7, 412.0)
    assert judge(leases, sighting(evidence_at=412.0, beat=7), 412.0).reachability is Reachability.SUSPECT
    leases.handle_gap(100.0)
    assert judge(leases, sighting(evidence_at=512.0, beat=7), 512.0).reachability is Reachability.SUSPECT


def test_rarely_contacted_host_is_not_stalled() -> None:
    leases = table()
    judge(leases, sighting(evidence_at=0.0, beat=1), 0.0)
    leases.handle_contact(HOST, 1, 1, 500.0)
    leases.handle_contact(HOST, 1, 200, 1500.0)
    assert judge(leases, sighting(evidence_at=1500.0, beat=200), 1500.0).reachability is Reachability.ALIVE


def test_host_that_came_back_cools_down_until_its_owner_speaks() -> None:
    leases = table()
    judge(leases, sighting(evidence_at=100.0), 100.0, version=5)
    judge(leases, sighting(Reachability.FAILED, evidence_at=100.0), 110.0, version=5)
    back = judge(leases, sighting(evidence_at=120.0), 120.0, version=5)
    assert back.reachability is Reachability.ALIVE
    assert back.is_cooling
    assert not judge(leases, sighting(evidence_at=121.0), 121.0, version=6).is_cooling


def test_host_that_came_back_cools_down_at_most_for_the_cooldown() -> None:
    leases = table()
    judge(leases, sighting(Reachability.FAILED, evidence_at=100.0), 110.0, version=5)
    assert judge(leases, sighting(evidence_at=120.0), 120.0, version=5).is_cooling
    assert judge(leases, sighting(evidence_at=179.0), 179.0, version=5).is_cooling
    assert not judge(leases, sighting(evidence_at=180.0), 180.0, version=5).is_cooling


def test_new_run_owes_nothing_here() -> None:
    leases = table()
    judge(leases, sighting(Reachability.FAILED, evidence_at=100.0), 110.0)
    assert not judge(leases, sighting(evidence_at=120.0, epoch=2), 120.0).is_cooling


def test_own_sleep_is_not_held_against_others() -> None:
    leases = table()
    judge(leases, sighting(evidence_at=100.0), 100.0)
    leases.handle_awake(4000.0)
    waiting = judge(leases, sighting(evidence_at=100.0), 4000.0)
    assert waiting.reachability is Reachability.SUSPECT
    assert waiting.changes_at == 4030.0
    assert judge(leases, sighting(evidence_at=100.0), 4030.0).reachability is Reachability.FAILED


def test_forgotten_hosts_leave_nothing_behind() -> None:
    leases = table()
    judge(leases, sighting(evidence_at=100.0), 100.0)
    leases.forget_all_but(["another"])
    assert len(leases) == 0


def brake() -> Brake:
    return Brake(window_s=30.0, hold_s=90.0)


def test_brake_goes_on_when_more_than_half_fail_within_one_lease() -> None:
    failures = brake()
    failures.handle_failed("a", 100.0)
    failures.handle_failed("b", 110.0)
    assert not failures.is_on(4, 110.0), "exactly half is no mass failure"
    failures.handle_failed("c", 129.0)
    assert failures.is_on(4, 129.0)


def test_failures_one_after_the_other_are_no_burst() -> None:
    failures = brake()
    for number in range(4):
        failures.handle_failed(str(number), 100.0 * number)
        assert not failures.is_on(9, 100.0 * number)


def test_who_failed_before_does_not_count_as_standing() -> None:
    failures = brake()
    for name in "abcd":
        failures.handle_failed(name, 0.0)
    failures.handle_failed("e", 1000.0)
    failures.handle_failed("f", 1000.0)
    assert failures.is_on(7, 1000.0), "2 of the 3 that stood"


def test_brake_goes_off_when_half_are_back_or_the_hold_is_over() -> None:
    failures = brake()
    for name in "abc":
        failures.handle_failed(name, 100.0)
    assert failures.is_on(4, 100.0)
    assert failures.is_on(4, 150.0), "it holds beyond the window"
    assert failures.next_deadline() == 190.0
    assert not failures.is_on(4, 191.0)
    for name in "abc":
        failures.handle_failed(name, 300.0)
    assert failures.is_on(4, 300.0)
    failures.handle_back("a")
    assert not failures.is_on(4, 331.0)


def test_joining_a_fleet_of_old_failures_is_no_mass_failure() -> None:
    leases = table()
    for number in range(5):
        leases.judge(Sighting(str(number), 1, Reachability.FAILED, 0.0, 0), -1, 100.0)
    assert not leases.brake.is_on(6, 100.0)
