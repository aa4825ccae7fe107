"""Silences: for a time, a check's findings on this host do not count, and are shown as silenced.

For maintenance: who swaps a riser knows that the lanes are wrong. A silence ends by itself. It runs on the
boot clock; only across a restart does the wall clock tell what is left of it, and then it can be no longer
than it was made. It makes nothing healthy that is not known: a card that cannot be read stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gpumesh.errors import RequestError
from gpumesh.health.checks import CHECKS
from gpumesh.health.rules import HOST
from gpumesh.model import Finding

MAX_SILENCES: Final = 64
MAX_FOR_S: Final = 30 * 86400.0
MIN_FOR_S: Final = 1.0
MAX_TEXT: Final = 200
_MAX_UNIX: Final = 1e11
_CODES: Final = {check.name: tuple(rule.code for rule in check.rules) for check in CHECKS}


@dataclass(frozen=True, slots=True)
class Silence:
    """One operator's word."""

    check: str
    """A check's name, or ``check/code`` for one of its findings alone."""
    subject: str
    """``host``, ``gpu/<uuid>``, or empty for every subject of this host."""
    for_s: float
    """How long it was made for."""
    until: float
    """Unix seconds at which it ends, for people and for restarts."""
    reason: str = ""


class Silences:
    """Those that stand. ``now`` is the boot clock in seconds, ``unix`` the wall clock."""

    def __init__(self) -> None:
        self._ends_at: dict[Silence, float] = {}

    def add(self, check: str, subject: str, for_s: float, *, reason: str, now: float, unix: float) -> Silence:
        """Silence a check; one of the same check and subject is replaced.

        Errors: RequestError for an unknown check, a time out of bounds, or too many silences.
        """
        _refuse_unknown(check)
        if not MIN_FOR_S <= for_s <= MAX_FOR_S:
            raise RequestError(f"for: must be from {MIN_FOR_S:g} s to {MAX_FOR_S / 86400:g} days")
        self.end(check, subject, now=now)
        if len(self._ends_at) >= MAX_SILENCES:
            raise RequestError(f"{MAX_SILENCES} silences stand already; end one (`gpumesh silence --list`)")
        silence = Silence(check, subject, for_s, unix + for_s, reason[:MAX_TEXT])
        self._ends_at[silence] = now + for_s
        return silence

    def end(self, check: str, subject: str, *, now: float) -> bool:
        """End a silence before its time; False if there is none."""
        ended = [item for item in self.standing(now) if (item.check, item.subject) == (check, subject)]
        for item in ended:
            del self._ends_at[item]
        return bool(ended)

    def standing(self, now: float) -> tuple[Silence, ...]:
        """Return those that have not run out, in the order in which they were made."""
        self._ends_at = {item: at for item, at in self._ends_at.items() if at > now}
        return tuple(self._ends_at)

    def mark(self, findings: Iterable[Finding], now: float) -> tuple[Finding, ...]:
        """Return the findings, those that are silenced marked so and behind the others."""
        silences = self.standing(now)
        if not silences:
            return tuple(findings)
        marked = [_mark(finding, silences) for finding in findings]
        return tuple(sorted(marked, key=lambda finding: finding.silenced_until is not None))

    def to_json(self, now: float) -> dict[str, Any]:
        """Return the document to keep on disk."""
        return {
            "silences": [
                {
                    "check": item.check,
                    "subject": item.subject,
                    "for_s": item.for_s,
                    "until": item.until,
                    "reason": item.reason,
                }
                for item in self.standing(now)
            ]
        }

    def restore(self, document: Any, *, now: float, unix: float) -> None:
        """Take up what was kept; never raises. What has run out meanwhile, or makes no sense, is left out."""
        kept = document.get("silences") if isinstance(document, Mapping) else None
        for entry in kept[:MAX_SILENCES] if isinstance(kept, list) else ():
            silence = _read(entry)
            if silence is not None and silence.until > unix:
                self._ends_at[silence] = now + min(silence.for_s, silence.until - unix)


def _mark(finding: Finding, silences: Iterable[Silence]) -> Finding:
    names = {finding.check, f"{finding.check}/{finding.evidence.get('code')}"}
    fitting = [item for item in silences if item.check in names and item.subject in {"", finding.subject}]
    if not fitting:
        return finding
    longest = max(fitting, key=lambda item: item.until)
    evidence = {**finding.evidence, "silenced_because": longest.reason}
    return replace(finding, silenced_until=longest.until, evidence=evidence)


def _refuse_unknown(check: str) -> None:
    name, _, code = check.partition("/")
    if name not in _CODES:
        raise RequestError(f"{check[:MAX_TEXT]!r}: no such check; there are: {', '.join(_CODES)}")
    if code and code not in _CODES[name]:
        raise RequestError(
            f"{check[:MAX_TEXT]!r}: {name} has no such finding; it has: {', '.join(_CODES[name])}"
        )


def _read(entry: Any) -> Silence | None:
    if not isinstance(entry, Mapping):
        return None
    texts = [entry.get(key) for key in ("check", "subject", "reason")]
    numbers = [entry.get(key) for key in ("for_s", "until")]
    if not all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts):
        return None
    if not all(_is_number(number) for number in numbers):
        return None
    check, subject, reason = (str(text) for text in texts)
    for_s, until = (float(number or 0) for number in numbers)
    is_sound = 0 < for_s <= MAX_FOR_S and (subject in {"", HOST} or subject.startswith("gpu/"))
    return Silence(check, subject, for_s, until, reason) if is_sound else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MAX_UNIX
