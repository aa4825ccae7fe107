from __future__ import annotations

import pytest

from gpumesh.sim.agenda import Agenda, HostClock


def test_agenda_keeps_time_order_and_entry_order_at_ties() -> None:
    agenda = Agenda()
    done: list[str] = []
    agenda.at(2.0, done.append, "late")
    agenda.at(1.0, done.append, "first of two")
    agenda.at(1.0, done.append, "second of two")
    agenda.run_until(1.5)
    assert done == ["first of two", "second of two"]
    assert agenda.now == 1.5
    agenda.run_until(2.0)
    assert done[-1] == "late"


def test_what_is_entered_for_the_past_happens_now_and_time_never_goes_back() -> None:
    agenda = Agenda()
    agenda.run_until(5.0)
    seen: list[float] = []
    agenda.at(1.0, lambda: seen.append(agenda.now))
    agenda.run_until(5.0)
    assert seen == [5.0]


def test_actions_may_enter_further_actions() -> None:
    agenda = Agenda()
    seen: list[float] = []

    def again() -> None:
        seen.append(agenda.now)
        if len(seen) < 3:
            agenda.after(1.0, again)

    agenda.after(1.0, again)
    agenda.run_until(10.0)
    assert seen == [1.0, 2.0, 3.0]


def test_clock_drifts_and_finds_its_deadline_in_world_time() -> None:
    clock = HostClock(world_now=10.0, reads=1000.0, rate=1.5)
    assert clock.read(12.0) == 1003.0
    assert clock.world_time_of(1003.0) == pytest.approx(12.0)


def test_clock_never_goes_back() -> None:
    clock = HostClock(world_now=0.0, reads=5.0)
    assert clock.read(3.0) == 8.0
    assert clock.read(1.0) == 8.0
    assert clock.read_at_least(3.0, 8.5) == 8.5
    assert clock.read(3.2) == 8.5


def test_clock_keeps_its_reading_when_its_rate_changes_and_leaps_forward() -> None:
    clock = HostClock(world_now=0.0, reads=0.0, rate=2.0)
    clock.set_rate(10.0, 0.5)
    assert clock.read(10.0) == 20.0
    assert clock.read(12.0) == 21.0
    clock.jump(12.0, 60.0)
    assert clock.read(12.0) == 81.0
    assert clock.rate == 0.5
