from __future__ import annotations

import pytest

from gpumesh.config import HealthConfig
from gpumesh.health.rules import Rule, Symptom
from gpumesh.health.verdicts import Standing, verdict_of
from gpumesh.model import Action, Finding, Severity, Verdict

HARD = Rule("check", "hard", "at once", Severity.CRITICAL, Action.RESET, "test")
SOFT = Rule(
    "check",
    "soft",
    "for {hot_after}",
    Severity.WARNING,
    Action.INSPECT,
    "test",
    stand="hot_after",
    clear_s=60,
)


def looks(standing: Standing, rule: Rule | None, times: list[float], subject: str = "host") -> int:
    for now in times:
        symptoms = [] if rule is None else [Symptom(rule, subject, f"seen at {now}")]
        standing.handle_symptoms("check", symptoms, lambda _: True, now, 1000.0 + now)
    return len(standing.findings(subject))


def test_a_hard_fact_stands_at_once_with_its_time() -> None:
    standing = Standing(30, HealthConfig())
    assert looks(standing, HARD, [7]) == 1
    (finding,) = standing.findings("host")
    assert finding.since == 1007.0
    assert finding.evidence == {"code": "hard"}


def test_a_soft_signal_stands_after_its_time() -> None:
    standing = Standing(30, HealthConfig())
    assert looks(standing, SOFT, [0, 20, 40, 59]) == 0
    assert looks(standing, SOFT, [60]) == 1


def test_a_break_starts_a_soft_signal_anew() -> None:
    standing = Standing(30, HealthConfig())
    looks(standing, SOFT, [0, 20, 40])
    looks(standing, None, [50])
    assert looks(standing, SOFT, [60, 80, 100]) == 0


def test_time_without_looks_counts_up_to_the_gap_only() -> None:
    standing = Standing(30, HealthConfig())
    assert looks(standing, SOFT, [0, 36_000]) == 0
    assert looks(standing, SOFT, [36_020]) == 0
    assert looks(standing, SOFT, [36_030]) == 1


def test_recovery_needs_clean_looks_and_time() -> None:
    standing = Standing(30, HealthConfig())
    looks(standing, HARD, [0])
    assert looks(standing, None, [1, 2]) == 1
    assert looks(standing, None, [3]) == 0
    looks(standing, SOFT, [10, 30, 50, 70])
    assert looks(standing, None, [80, 90, 100, 110, 120, 130]) == 1
    assert looks(standing, None, [140]) == 0


def test_recovery_is_possible_however_seldom_one_looks() -> None:
    standing = Standing(30, HealthConfig())
    looks(standing, SOFT, [0, 1000, 2000])
    assert looks(standing, None, [3000, 4000]) == 1
    assert looks(standing, None, [5000]) == 0


def test_a_relapse_during_recovery_starts_it_anew_and_keeps_since() -> None:
    standing = Standing(30, HealthConfig())
    looks(standing, HARD, [0])
    looks(standing, None, [1, 2])
    looks(standing, HARD, [3])
    assert looks(standing, None, [4, 5]) == 1
    assert standing.findings("host")[0].since == 1000.0


def test_a_subject_that_was_not_judged_keeps_what_it_had() -> None:
    standing = Standing(30, HealthConfig())
    looks(standing, HARD, [0], "gpu/a")
    for now in range(1, 100):
        standing.handle_symptoms("check", [], lambda subject: subject != "gpu/a", now, now)
    assert len(standing.findings("gpu/a")) == 1


def test_another_check_clears_nothing() -> None:
    standing = Standing(30, HealthConfig())
    looks(standing, HARD, [0])
    for now in range(1, 10):
        standing.handle_symptoms("other", [], lambda _: True, now, now)
    assert len(standing.findings("host")) == 1


def test_a_subject_that_is_no_more_is_forgotten() -> None:
    standing = Standing(30, HealthConfig())
    looks(standing, HARD, [0], "gpu/a")
    standing.keep_subjects(lambda subject: subject == "host")
    assert standing.findings("gpu/a") == ()


def test_findings_come_worst_first() -> None:
    standing = Standing(30, HealthConfig())
    severities = (Severity.INFO, Severity.CRITICAL, Severity.WARNING)
    rules = [Rule("check", severity.value, "", severity, Action.NONE, "") for severity in severities]
    standing.handle_symptoms("check", [Symptom(rule, "host", "") for rule in rules], lambda _: True, 0, 0)
    assert [finding.severity for finding in standing.findings("host")] == [
        Severity.CRITICAL,
        Severity.WARNING,
        Severity.INFO,
    ]


@pytest.mark.parametrize(
    ("severities", "is_known", "verdict"),
    [
        ([], True, Verdict.HEALTHY),
        ([Severity.INFO], True, Verdict.HEALTHY),
        ([Severity.INFO, Severity.WARNING], True, Verdict.DEGRADED),
        ([Severity.WARNING, Severity.CRITICAL], True, Verdict.UNHEALTHY),
        ([], False, Verdict.UNKNOWN),
        ([Severity.WARNING], False, Verdict.UNKNOWN),
        ([Severity.CRITICAL], False, Verdict.UNHEALTHY),
    ],
)
def test_unknown_is_never_healthy_and_the_worst_finding_decides(
    severities: list[Severity], is_known: bool, verdict: Verdict
) -> None:
    findings = [Finding("c", "host", severity, "") for severity in severities]
    assert verdict_of(findings, is_known=is_known) is verdict
