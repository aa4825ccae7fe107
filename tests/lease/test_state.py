from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpumesh.lease.condition import condition, is_released
from gpumesh.lease.state import RULES, Standing, headline
from gpumesh.model import (
    Admission,
    Baseline,
    BaselineItem,
    Finding,
    Gpu,
    HealthReport,
    HostState,
    Phase,
    Reachability,
    Severity,
    Verdict,
)


def gpu(number: int, verdict: Verdict = Verdict.HEALTHY, words: str = "") -> Gpu:
    subject = f"gpu/GPU-{number}"
    findings = (Finding("x", subject, Severity.CRITICAL, words),) if words else ()
    return Gpu(f"GPU-{number}", number, "RTX 4090", verdict=verdict, findings=findings)


def report(*gpus: Gpu, verdict: Verdict = Verdict.HEALTHY, **changes: Any) -> HealthReport:
    values: dict[str, Any] = {"gpus": gpus or (gpu(0), gpu(1)), "driver_version": "550.54.14"}
    return HealthReport(verdict, **{**values, **changes})


FIT = Standing(Reachability.ALIVE, health=report())
WORSE: list[tuple[HostState, dict[str, Any]]] = [
    (HostState.FAILED, {"reachability": Reachability.FAILED}),
    (HostState.LEFT, {"reachability": Reachability.LEFT}),
    (HostState.SUSPECT, {"reachability": Reachability.SUSPECT}),
    (HostState.ISOLATED, {"is_isolated": True}),
    (HostState.UNHEALTHY, {"health": report(verdict=Verdict.UNHEALTHY)}),
    (HostState.DRAINING, {"admission": Admission.DRAINING}),
    (HostState.CORDONED, {"admission": Admission.CORDONED}),
    (HostState.DEGRADED, {"health": report(gpu(0), gpu(1, Verdict.UNHEALTHY, "lost"))}),
    (HostState.COOLDOWN, {"phase": Phase.COOLDOWN}),
    (HostState.OCCUPIED, {"admission": Admission.OCCUPIED}),
    (HostState.OFF_HOURS, {"admission": Admission.OFF_HOURS}),
    (HostState.JOINING, {"phase": Phase.JOINING}),
]


def test_rules_stand_in_the_order_of_the_states() -> None:
    assert [state for state, _ in RULES] + [HostState.READY] == list(HostState)


def test_nothing_wrong_is_ready_without_a_word() -> None:
    assert headline(FIT) == (HostState.READY, "")


@pytest.mark.parametrize(("state", "change"), WORSE)
def test_each_state_has_its_cause_and_a_reason(state: HostState, change: dict[str, Any]) -> None:
    found, reason = headline(replace(FIT, **change))
    assert found is state
    assert reason


@pytest.mark.parametrize("first", range(len(WORSE)))
def test_the_worse_of_two_wins(first: int) -> None:
    for second in range(first + 1, len(WORSE)):
        both = {**WORSE[second][1], **WORSE[first][1]}
        assert headline(replace(FIT, **both))[0] is WORSE[first][0]


def test_without_a_record_a_host_is_joining() -> None:
    assert headline(Standing(Reachability.ALIVE, phase=Phase.SETTLED))[0] is HostState.JOINING


def test_operators_words_are_the_reason() -> None:
    standing = replace(FIT, admission=Admission.CORDONED, admission_reason="fan replacement")
    assert headline(standing) == (HostState.CORDONED, "fan replacement")


@pytest.mark.parametrize(
    ("health", "state", "words"),
    [
        (report(), HostState.READY, ""),
        (report(verdict=Verdict.UNKNOWN), HostState.UNHEALTHY, "not known"),
        (HealthReport(Verdict.HEALTHY), HostState.UNHEALTHY, "no GPU driver"),
        (HealthReport(Verdict.HEALTHY, driver_version="550.1"), HostState.UNHEALTHY, "no GPU"),
        (report(gpu(0, Verdict.UNHEALTHY, "fell off")), HostState.UNHEALTHY, "fell off"),
        (
            report(gpu(0, Verdict.UNKNOWN), gpu(1, Verdict.UNHEALTHY)),
            HostState.UNHEALTHY,
            "none of its 2 GPUs",
        ),
        (report(gpu(0), gpu(1, Verdict.UNHEALTHY, "lost")), HostState.DEGRADED, "1 of 2 GPUs not healthy"),
        (report(gpu(0), gpu(1, Verdict.UNKNOWN)), HostState.DEGRADED, "GPU-1: unknown"),
        (report(gpu(0, Verdict.DEGRADED, "hot")), HostState.DEGRADED, "hot"),
        (report(verdict=Verdict.DEGRADED), HostState.DEGRADED, "degraded"),
    ],
)
def test_health_decides_with_the_numbers_in_words(health: HealthReport, state: HostState, words: str) -> None:
    found, reason = condition(health)
    assert found is state
    assert words in reason


@pytest.mark.parametrize(
    ("mode", "is_met", "state"),
    [
        ("warn", False, HostState.READY),
        ("enforce", True, HostState.READY),
        ("enforce", False, HostState.UNHEALTHY),
        ("enforce", None, HostState.UNHEALTHY),
    ],
)
def test_only_an_enforced_baseline_takes_work_away(mode: str, is_met: bool | None, state: HostState) -> None:
    item = BaselineItem("driver", "550.54.14 or newer", "535.1" if is_met is not None else None, is_met)
    found, reason = condition(report(baseline=Baseline(mode, "built-in", (item,))))
    assert found is state
    assert ("driver" in reason) is (state is HostState.UNHEALTHY)


def test_what_is_silenced_is_no_reason() -> None:
    silenced = Finding("pcie", "host", Severity.CRITICAL, "8 of 16 lanes", silenced_until=2e9)
    counting = Finding("driver", "host", Severity.CRITICAL, "no driver")
    both = HealthReport(Verdict.UNHEALTHY, (silenced, counting))
    assert condition(both) == (HostState.UNHEALTHY, "no driver")


def test_an_enforced_baseline_that_is_silenced_keeps_nobody_out() -> None:
    unmet = Baseline("enforce", "x.toml", (BaselineItem("clock", "synchronised", "not", is_met=False),))
    told = Finding("baseline", "host", Severity.CRITICAL, "the clock")
    gpu = Gpu("GPU-1", 0, "A", verdict=Verdict.HEALTHY)
    report = HealthReport(Verdict.HEALTHY, (told,), (gpu,), driver_version="1", baseline=unmet)
    assert condition(report)[0] is HostState.UNHEALTHY
    silenced = replace(report, findings=(replace(told, silenced_until=2e9),))
    assert condition(silenced) == (HostState.READY, "")


RELEASED = Finding("driver", "host", Severity.INFO, "let go of", evidence={"code": "released"})
ASLEEP = report(gpu(0, Verdict.UNKNOWN), gpu(1, Verdict.UNKNOWN), findings=(RELEASED,))


def test_drained_host_that_let_go_of_its_driver_is_draining_and_no_alarm() -> None:
    drained = Standing(
        Reachability.ALIVE, health=ASLEEP, admission=Admission.DRAINING, admission_reason="upgrade"
    )
    assert headline(drained) == (HostState.DRAINING, "upgrade")


@pytest.mark.parametrize(
    "changes",
    [
        {"admission": Admission.OPEN},
        {"health": replace(ASLEEP, verdict=Verdict.UNHEALTHY)},
        {"health": replace(ASLEEP, gpus=(gpu(0, Verdict.UNHEALTHY, "lost"), gpu(1, Verdict.UNKNOWN)))},
        {"health": replace(ASLEEP, findings=())},
    ],
)
def test_what_no_drain_explains_stays_unhealthy(changes: dict[str, Any]) -> None:
    drained = Standing(Reachability.ALIVE, health=ASLEEP, admission=Admission.DRAINING)
    assert headline(replace(drained, **changes))[0] is HostState.UNHEALTHY


def test_host_that_takes_its_driver_up_again_says_what_it_waits_for() -> None:
    state, reason = condition(ASLEEP)
    assert state is HostState.UNHEALTHY
    assert "let go of" in reason


def test_a_drained_host_whose_own_findings_were_cut_on_the_way_is_draining_by_its_cards_word() -> None:
    """Peers get a bounded list of the host's findings, and the one that tells may be beyond it."""
    cards = [replace(gpu(number, Verdict.UNKNOWN), findings=(RELEASED,)) for number in range(2)]
    assert is_released(report(*cards))
    assert not is_released(report(cards[0], gpu(1, Verdict.UNKNOWN))), "one that says nothing is unknown"
    assert not is_released(report(cards[0], replace(cards[1], verdict=Verdict.UNHEALTHY)))
