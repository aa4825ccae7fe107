"""The named entries of a record and the model values they carry.

| entry | value |
|---|---|
| ``host`` | :class:`~gpumesh.model.HostFacts` |
| ``gpu/<uuid>`` | :class:`~gpumesh.model.Gpu` with its findings |
| ``health`` | the host's own verdict, findings, driver and CUDA version, and how many ``gpu/`` entries there
are | | ``baseline`` | :class:`~gpumesh.model.Baseline` |
| ``sharing`` | the owner's admission and its reason |
| ``lease`` | phase after a start or recovery, and whether the owner calls itself isolated |

Encoders shorten what would not fit a datagram; parsers are total: anything absurd gives None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar

import msgpack

from gpumesh.errors import RejectedError
from gpumesh.model import (
    Action,
    Admission,
    Baseline,
    BaselineItem,
    Finding,
    Gpu,
    HealthReport,
    HostFacts,
    Phase,
    Severity,
    Verdict,
)
from gpumesh.records.bounds import MAX_GOSSIP_BYTES, MAX_NUMBER, MAX_VALUE_BYTES
from gpumesh.records.fields import Fields, clean_text
from gpumesh.records.values import Plain

HOST: Final = "host"
HEALTH: Final = "health"
BASELINE: Final = "baseline"
SHARING: Final = "sharing"
LEASE: Final = "lease"
GPU_PREFIX: Final = "gpu/"

_MAX_FINDINGS: Final = 16
_MAX_BASELINE_ITEMS: Final = 16
_MAX_LABELS: Final = 64
MAX_GPUS: Final = 64
"""Of one host: what a chassis holds, and what one record has room for."""
_MAX_INDEX: Final = 1023
_MAX_REASON: Final = 255
_MAX_BYTES: Final = 1 << 50
_MAX_UNIX: Final = 1e11
_HEADER_BYTES: Final = 180
"""Host id, counters and the longest entry name around a value in an update."""
_ROOM_BYTES: Final = MAX_GOSSIP_BYTES - _HEADER_BYTES
_MEASURES: Final = ((16, 255, 8), (8, 160, 8), (8, 120, 4), (4, 120, 2), (4, 80, 0), (2, 60, 0), (1, 40, 0))
"""Number of findings, characters of each text, pieces of evidence: tried in turn until the entry fits."""
_WORST_FIRST: Final = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class HostHealth:
    """The ``health`` entry."""

    report: HealthReport
    """Without GPUs and baseline, which are entries of their own."""
    num_gpus: int
    """How many ``gpu/`` entries belong to it: with fewer, the record has not wholly arrived."""
    has_baseline: bool
    """Whether a ``baseline`` entry belongs to it."""


class LeaseWord(NamedTuple):
    """The ``lease`` entry: a tuple, since the owner makes one in each call and compares it with the last."""

    phase: Phase
    is_isolated: bool
    reason: str = ""
    """Why it cools down, for people."""


def encode_host(facts: HostFacts) -> tuple[Plain, int]:
    """Return the value of ``host``, and how many labels had to be left out because they exceed an entry."""
    labels = {clean_text(key, 255): clean_text(text, 255) for key, text in sorted(facts.labels.items())}
    value: dict[str, Any] = {
        "name": clean_text(facts.name, 255),
        "boot_id": clean_text(facts.boot_id, 64),
        "version": clean_text(facts.version, 64),
        "os": clean_text(facts.os, 128),
        "kernel": clean_text(facts.kernel, 128),
        "http": clean_text(facts.http, 128),
        "labels": labels,
    }
    num_cut = 0
    while labels and (len(labels) > _MAX_LABELS or len(msgpack.packb(value)) > MAX_VALUE_BYTES):
        labels.popitem()
        num_cut += 1
    return value, num_cut


def parse_host(value: Plain) -> HostFacts | None:
    """Return what ``host`` says, or None if it is absurd."""

    def read(fields: Fields) -> HostFacts:
        return HostFacts(
            name=fields.text("name", 255),
            boot_id=fields.text("boot_id", 64),
            version=fields.text("version", 64),
            os=fields.text("os"),
            kernel=fields.text("kernel"),
            labels=fields.texts_by_name("labels", _MAX_LABELS),
            http=fields.text("http"),
        )

    return _total(read, value)


def encode_gpu(gpu: Gpu) -> Plain:
    """Return the value of ``gpu/<uuid>``, its findings shortened until a datagram can carry it."""
    head = {
        "index": _within(gpu.index, _MAX_INDEX),
        "model": clean_text(gpu.model, 96),
        "memory": _within(gpu.memory_bytes, _MAX_BYTES),
        "free": _within(gpu.memory_free_bytes, _MAX_BYTES),
        "capability": _cleaned(gpu.capability, 16),
        "pci": clean_text(gpu.pci_bus_id, 32),
        "busy": gpu.is_busy,
        "verdict": gpu.verdict.value,
    }
    return _fitted(head, gpu.findings)


def parse_gpu(uuid: str, value: Plain) -> Gpu | None:
    """Return what ``gpu/<uuid>`` says, or None if it is absurd."""

    def read(fields: Fields) -> Gpu:
        return Gpu(
            uuid=uuid,
            index=fields.optional_integer("index", high=_MAX_INDEX),
            model=fields.text("model", 96),
            memory_bytes=fields.optional_integer("memory", high=_MAX_BYTES),
            memory_free_bytes=fields.optional_integer("free", high=_MAX_BYTES),
            capability=fields.optional_text("capability", 16),
            pci_bus_id=fields.text("pci", 32),
            is_busy=fields.optional_flag("busy"),
            verdict=fields.word("verdict", Verdict, Verdict.UNKNOWN),
            findings=_findings(fields, GPU_PREFIX + uuid),
        )

    return _total(read, value)


def encode_health(report: HealthReport, num_gpus: int) -> Plain:
    """Return the value of ``health``: the host's own verdict, its GPUs and baseline left aside.

    ``num_gpus`` counts the ``gpu/`` entries that were published with it.
    """
    head = {
        "verdict": report.verdict.value,
        "driver": _cleaned(report.driver_version, 32),
        "cuda": _cleaned(report.cuda_version, 32),
        "gpus": num_gpus,
        "baseline": report.baseline is not None,
    }
    return _fitted(head, report.findings)


def parse_health(value: Plain) -> HostHealth | None:
    """Return what ``health`` says, or None if it is absurd."""

    def read(fields: Fields) -> HostHealth:
        report = HealthReport(
            verdict=fields.word("verdict", Verdict, Verdict.UNKNOWN),
            findings=_findings(fields, "host"),
            driver_version=fields.optional_text("driver", 32),
            cuda_version=fields.optional_text("cuda", 32),
        )
        has_baseline = fields.optional_flag("baseline") is True
        return HostHealth(report, fields.integer("gpus", high=MAX_GPUS), has_baseline)

    return _total(read, value)


def encode_baseline(baseline: Baseline) -> Plain:
    """Return the value of ``baseline``."""
    items = [
        {
            "name": clean_text(item.name, 32),
            "expected": clean_text(item.expected, 64),
            "found": None if item.found is None else clean_text(item.found, 64),
            "met": item.is_met,
            "advice": clean_text(item.advice, 120),
        }
        for item in baseline.items[:_MAX_BASELINE_ITEMS]
    ]
    return {"mode": baseline.mode, "source": clean_text(baseline.source, 128), "items": items}


def parse_baseline(value: Plain) -> Baseline | None:
    """Return what ``baseline`` says, or None if it is absurd."""

    def read_item(item: Any) -> BaselineItem:
        fields = Fields(item)
        return BaselineItem(
            name=fields.text("name", 32),
            expected=fields.text("expected", 64),
            found=fields.optional_text("found", 64),
            is_met=fields.optional_flag("met"),
            advice=fields.text("advice", 120),
        )

    def read(fields: Fields) -> Baseline:
        items = tuple(read_item(item) for item in fields.items("items", _MAX_BASELINE_ITEMS))
        return Baseline(fields.text("mode", 16), fields.text("source"), items)

    return _total(read, value)


def encode_sharing(admission: Admission, reason: str) -> Plain:
    """Return the value of ``sharing``."""
    return {"admission": admission.value, "reason": clean_text(reason, _MAX_REASON)}


def parse_sharing(value: Plain) -> tuple[Admission, str] | None:
    """Return what ``sharing`` says, or None if it is absurd; a word not known here admits nothing."""
    return _total(
        lambda fields: (
            fields.word("admission", Admission, Admission.CORDONED),
            fields.text("reason", _MAX_REASON),
        ),
        value,
    )


def encode_lease(word: LeaseWord) -> Plain:
    """Return the value of ``lease``."""
    reason = clean_text(word.reason, _MAX_REASON)
    return {"phase": word.phase.value, "isolated": word.is_isolated, "reason": reason}


def parse_lease(value: Plain) -> LeaseWord | None:
    """Return what ``lease`` says, or None if it is absurd."""
    return _total(
        lambda fields: LeaseWord(
            fields.word("phase", Phase, Phase.JOINING),
            fields.optional_flag("isolated") is True,
            fields.text("reason", _MAX_REASON),
        ),
        value,
    )


def _total(read: Callable[[Fields], ValueT], value: Plain) -> ValueT | None:
    try:
        return read(Fields(value))
    except RejectedError:
        return None


def _fitted(head: dict[str, Any], findings: tuple[Finding, ...]) -> Plain:
    ordered = sorted(findings, key=_importance)
    value = head
    for num_findings, num_characters, num_evidence in _MEASURES:
        told = [_encode_finding(item, num_characters, num_evidence) for item in ordered[:num_findings]]
        value = {**head, "findings": told}
        if len(msgpack.packb(value)) <= _ROOM_BYTES:
            break
    return value


def _importance(finding: Finding) -> tuple[bool, int, float, str]:
    """Return a sort key: those that count first, worst first."""
    is_silenced = finding.silenced_until is not None
    return is_silenced, _WORST_FIRST[finding.severity], finding.since, finding.check


def _encode_finding(finding: Finding, num_characters: int, num_evidence: int) -> dict[str, Any]:
    evidence = {
        clean_text(key, 32): clean_text(item, num_characters) if isinstance(item, str) else item
        for key, item in list(finding.evidence.items())[:num_evidence]
        if not isinstance(item, int | float) or abs(item) <= MAX_NUMBER
    }
    value: dict[str, Any] = {
        "check": clean_text(finding.check, 32),
        "severity": finding.severity.value,
        "reason": clean_text(finding.reason, num_characters),
        "action": finding.action.value,
        "advice": clean_text(finding.advice, num_characters),
        "evidence": evidence,
        "since": finding.since if 0 <= finding.since <= _MAX_UNIX else 0,
    }
    if finding.silenced_until is not None:
        value["silenced"] = min(max(0.0, finding.silenced_until), _MAX_UNIX)
    return value


def _within(number: int | None, high: int) -> int | None:
    """Return a number of one's own, or None (unknown) where it is absurd."""
    return number if number is not None and 0 <= number <= high else None


def _cleaned(text: str | None, limit: int) -> str | None:
    return None if text is None else clean_text(text, limit)


def _findings(fields: Fields, subject: str) -> tuple[Finding, ...]:
    return tuple(replace(_finding(item), subject=subject) for item in fields.items("findings", _MAX_FINDINGS))


def _finding(item: Any) -> Finding:
    fields = Fields(item)
    return Finding(
        check=fields.text("check", 32),
        subject="",
        severity=fields.word("severity", Severity, Severity.WARNING),
        reason=fields.text("reason", _MAX_REASON),
        action=fields.word("action", Action, Action.INSPECT),
        advice=fields.text("advice", _MAX_REASON),
        evidence=fields.scalars("evidence", 16),
        since=fields.number("since", high=_MAX_UNIX),
        silenced_until=fields.number("silenced", high=_MAX_UNIX) or None,
    )
