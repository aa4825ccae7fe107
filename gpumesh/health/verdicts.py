"""Hysteresis both ways, and verdicts: from symptoms that come and go to findings that stand.

A hard fact is a finding at the first look. A soft signal must be seen for its rule's time without a break.
A finding goes after several clean looks in a row and its rule's time, so that one lucky look frees nothing
and no card is condemned for ever (k8s-device-plugin#1014). A look that cannot tell changes nothing.

What a standing finding says is rewritten seldom: its words travel to the whole fleet, its numbers need not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from gpumesh.config import HealthConfig
from gpumesh.health.rules import Rule, Symptom
from gpumesh.model import Finding, Severity, Verdict

BRISK_S: Final = 60.0
"""Symptoms that come or go within this are worth more looks meanwhile."""
REWORD_S: Final = 600.0
"""A standing finding takes over newer numbers at most this often."""
_ORDER: Final = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}

_Key = tuple[str, str, str, str]


@dataclass(slots=True)
class _Course:
    """How one symptom has gone so far."""

    rule: Rule
    judged_at: float
    seen_s: float = 0.0
    finding: Finding | None = None
    worded_at: float = 0.0
    clean_s: float = 0.0
    num_clean: int = 0


class Standing:
    """The findings that stand, by subject.

    ``max_gap_s``: of a longer pause between two looks (suspend, hung driver) only this much counts, as seen
    or as clean: what happened in between nobody knows. ``thresholds`` say how long is long enough.
    """

    def __init__(self, max_gap_s: float, thresholds: HealthConfig) -> None:
        self._max_gap_s = max_gap_s
        self._thresholds = thresholds
        self._courses: dict[_Key, _Course] = {}

    def handle_symptoms(
        self,
        check: str,
        symptoms: Iterable[Symptom],
        is_judged: Callable[[str], bool],
        now: float,
        unix: float,
    ) -> None:
        """Take what ``check`` saw in one look; subjects that are not judged keep what they had."""
        seen: set[_Key] = set()
        for symptom in symptoms:
            key = (check, symptom.rule.code, symptom.subject, symptom.item)
            seen.add(key)
            self._see(key, symptom, now, unix)
        for key in [key for key in self._courses if key[0] == check and key not in seen]:
            if is_judged(key[2]) and self._is_over(self._courses[key], now):
                del self._courses[key]

    def keep_subjects(self, is_known: Callable[[str], bool]) -> None:
        """Forget everything about subjects that are no more; this bounds the table."""
        for key in [key for key in self._courses if not is_known(key[2])]:
            del self._courses[key]

    def is_unsettled(self) -> bool:
        """Tell whether a fault is soon to be a finding, or a finding soon to go.

        Only what counts, and only what a minute decides: to be looked at more often for longer than that is
        worse than to be told a little later.
        """
        return any(self._is_on_the_move(course) for course in self._courses.values())

    def _is_on_the_move(self, course: _Course) -> bool:
        rule = course.rule
        if rule.severity is Severity.INFO:
            return False
        if course.finding is None:
            return rule.stands_after_s(self._thresholds) <= BRISK_S
        return course.num_clean > 0 and rule.goes_after_s(self._thresholds) <= BRISK_S

    def findings(self, subject: str) -> tuple[Finding, ...]:
        """Return the standing findings of a subject, worst first."""
        standing = [
            (_ORDER[course.finding.severity], key, course.finding)
            for key, course in self._courses.items()
            if course.finding is not None and key[2] == subject
        ]
        return tuple(finding for _, _, finding in sorted(standing, key=lambda item: item[:2]))

    def _see(self, key: _Key, symptom: Symptom, now: float, unix: float) -> None:
        course = self._courses.get(key)
        if course is None:
            course = self._courses[key] = _Course(symptom.rule, judged_at=now)
        course.seen_s += self._passed(course, now)
        course.rule, course.num_clean, course.clean_s = symptom.rule, 0, 0.0
        if course.finding is None:
            if course.seen_s >= symptom.rule.stands_after_s(self._thresholds):
                course.finding, course.worded_at = _finding(symptom, unix), now
        elif now - course.worded_at >= REWORD_S:
            course.finding, course.worded_at = _finding(symptom, course.finding.since), now

    def _is_over(self, course: _Course, now: float) -> bool:
        if course.finding is None:
            return True
        passed_s = self._passed(course, now)
        if course.num_clean > 0:
            course.clean_s += passed_s
        course.num_clean += 1
        is_long_enough = course.clean_s >= course.rule.goes_after_s(self._thresholds)
        return is_long_enough and course.num_clean >= self._thresholds.clean_looks

    def _passed(self, course: _Course, now: float) -> float:
        """Return the time since the last look that judged this symptom, as far as it counts."""
        passed_s = min(max(0.0, now - course.judged_at), self._max_gap_s)
        course.judged_at = now
        return passed_s


def verdict_of(findings: Iterable[Finding], *, is_known: bool) -> Verdict:
    """Return the verdict on a subject; ``is_known`` says whether this look could judge it at all.

    A standing critical finding outweighs not knowing; nothing else does. What is silenced does not count.
    """
    severities = {finding.severity for finding in findings if finding.silenced_until is None}
    if Severity.CRITICAL in severities:
        return Verdict.UNHEALTHY
    if not is_known:
        return Verdict.UNKNOWN
    return Verdict.DEGRADED if Severity.WARNING in severities else Verdict.HEALTHY


def _finding(symptom: Symptom, since: float) -> Finding:
    rule = symptom.rule
    return Finding(
        check=rule.check,
        subject=symptom.subject,
        severity=rule.severity,
        reason=symptom.reason,
        action=rule.action if symptom.action is None else symptom.action,
        advice=symptom.advice or rule.advice,
        evidence={"code": rule.code, **symptom.evidence},
        since=since,
    )
