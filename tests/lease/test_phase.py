from __future__ import annotations

import pytest

from gpumesh.errors import TransitionError
from gpumesh.lease.phase import TRANSITIONS, OwnPhase, Trigger
from gpumesh.model import Phase


def phase_of(own_phase: OwnPhase) -> Phase:
    # Through a function, so that the type checker does not hold an earlier assertion for still true.
    return own_phase.phase


def own(*, is_first_run: bool = True, cooldown_s: float = 60.0) -> OwnPhase:
    return OwnPhase(is_first_run=is_first_run, cooldown_s=cooldown_s, now=100.0)


def test_first_run_joins_and_settles_without_cooldown() -> None:
    phase = own()
    assert phase_of(phase) is Phase.JOINING
    assert phase.next_deadline() is None
    assert phase.handle(Trigger.INTRODUCED, 101.0)
    assert phase_of(phase) is Phase.SETTLED


def test_restart_cools_down_for_the_configured_time() -> None:
    phase = own(is_first_run=False)
    assert phase_of(phase) is Phase.COOLDOWN
    assert "started again" in phase.reason
    assert phase.next_deadline() == 160.0
    assert not phase.handle_timer(159.9)
    assert phase.handle_timer(160.0)
    assert phase_of(phase) is Phase.SETTLED
    assert phase.reason == ""


@pytest.mark.parametrize("trigger", [Trigger.ACCUSED, Trigger.RECOVERED])
def test_setback_begins_the_cooldown_anew(trigger: Trigger) -> None:
    phase = own()
    phase.handle(Trigger.INTRODUCED, 100.0)
    assert phase.handle(trigger, 200.0)
    assert not phase.handle(trigger, 230.0)
    assert phase.next_deadline() == 290.0


def test_no_cooldown_configured_ends_at_the_first_look() -> None:
    phase = own(is_first_run=False, cooldown_s=0.0)
    assert phase.handle_timer(100.0)
    assert phase_of(phase) is Phase.SETTLED


def test_transition_outside_the_table_raises_and_changes_nothing() -> None:
    phase = own(is_first_run=False)
    for trigger in Trigger:
        for before in Phase:
            if (before, trigger) in TRANSITIONS:
                continue
            phase.phase = before
            with pytest.raises(TransitionError, match=before.value):
                phase.handle(trigger, 300.0)
            assert phase.phase is before
            assert phase.next_deadline() == 160.0
