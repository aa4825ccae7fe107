from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from gpumesh.records import entries
from gpumesh.records.bounds import MAX_GOSSIP_BYTES
from gpumesh.records.codec import encode_update, make_entry
from gpumesh.records.values import encode_value

UUID = "GPU-4a2b9e0c-11d2-9c33-8a1f-0123456789ab"
HOST = "7e6f5a9c-2f57-4a3b-9a70-1f2e3d4c5b6a"
PARSERS = [
    entries.parse_host,
    lambda value: entries.parse_gpu(UUID, value),
    entries.parse_health,
    entries.parse_baseline,
    entries.parse_sharing,
    entries.parse_lease,
]


def finding(subject: str = "host", severity: Severity = Severity.WARNING, words: str = "too hot") -> Finding:
    return Finding(
        "temperature", subject, severity, words, Action.INSPECT, "clean it", {"celsius": 91}, 1.7e9
    )


def gpu(**changes: Any) -> Gpu:
    values: dict[str, Any] = {
        "uuid": UUID,
        "index": 0,
        "model": "NVIDIA GeForce RTX 4090",
        "memory_bytes": 24 << 30,
        "memory_free_bytes": 21 << 30,
        "capability": "8.9",
        "pci_bus_id": "00000000:01:00.0",
        "is_busy": False,
        "verdict": Verdict.DEGRADED,
        "findings": (finding("gpu/" + UUID),),
    }
    return Gpu(**{**values, **changes})


def update_bytes(name: str, value: Any) -> int:
    entry = make_entry(HOST, name, epoch=2**40, version=2**40, encoded=encode_value(value))
    return len(encode_update(entry))


def test_everything_survives_its_entry() -> None:
    facts = HostFacts("café-7", "boot", "1.0", "Debian 12", "6.1", {"room": "2"}, "10.0.0.7:9477")
    assert entries.parse_host(entries.encode_host(facts)[0]) == facts
    assert entries.parse_gpu(UUID, entries.encode_gpu(gpu())) == gpu()
    report = HealthReport(Verdict.DEGRADED, (finding(),), (gpu(),), "550.54.14", "12.4")
    head = entries.parse_health(entries.encode_health(report, 1))
    assert head is not None
    assert head.num_gpus == 1
    assert (head.report.verdict, head.report.findings) == (report.verdict, report.findings)
    baseline = Baseline("warn", "built-in", (BaselineItem("driver", "≥ 550", "535.1", False, "upgrade"),))
    assert entries.parse_baseline(entries.encode_baseline(baseline)) == baseline
    sharing = (Admission.OCCUPIED, "a game runs")
    assert entries.parse_sharing(entries.encode_sharing(*sharing)) == sharing
    lease = entries.LeaseWord(Phase.COOLDOWN, is_isolated=True, reason="restarted")
    assert entries.parse_lease(entries.encode_lease(lease)) == lease


def test_unknown_stays_unknown_through_its_entry() -> None:
    silent = gpu(memory_bytes=None, memory_free_bytes=None, is_busy=None, index=None, capability=None)
    assert entries.parse_gpu(UUID, entries.encode_gpu(silent)) == silent


def test_long_findings_are_shortened_until_a_datagram_carries_them_worst_first() -> None:
    many = tuple(finding("gpu/" + UUID, Severity.WARNING, "w" * 250) for _ in range(20))
    worst = finding("gpu/" + UUID, Severity.CRITICAL, "fell off the bus " + "x" * 200)
    value = entries.encode_gpu(gpu(findings=(*many, worst)))
    assert update_bytes("gpu/" + UUID, value) <= MAX_GOSSIP_BYTES
    read = entries.parse_gpu(UUID, value)
    assert read is not None
    assert read.findings[0].severity is Severity.CRITICAL
    assert read.findings[0].reason.startswith("fell off the bus")
    health = entries.encode_health(HealthReport(Verdict.DEGRADED, (*many, worst)), 0)
    assert update_bytes("health", health) <= MAX_GOSSIP_BYTES


def test_labels_beyond_an_entry_are_left_out_and_counted() -> None:
    facts = HostFacts("a", "boot", labels={f"label-{number}": "x" * 250 for number in range(64)})
    value, num_cut = entries.encode_host(facts)
    encode_value(value)
    read = entries.parse_host(value)
    assert read is not None
    assert num_cut == 64 - len(read.labels) > 0


def test_a_peers_words_cannot_drive_a_terminal() -> None:
    value = entries.encode_sharing(Admission.OPEN, "x")
    value["reason"] = "\x1b[2Jgone\r\n\u202eevil"
    read = entries.parse_sharing(value)
    assert read is not None
    assert read[1].isprintable()


def test_words_of_a_newer_version_are_read_cautiously() -> None:
    value = entries.encode_gpu(gpu(verdict=Verdict.HEALTHY))
    value["verdict"] = "excellent"
    value["findings"][0]["severity"] = "catastrophic"
    read = entries.parse_gpu(UUID, value)
    assert read is not None
    assert read.verdict is Verdict.UNKNOWN
    assert read.findings[0].severity is Severity.WARNING
    assert entries.parse_sharing({"admission": "lent", "reason": ""}) == (Admission.CORDONED, "")


@pytest.mark.parametrize(
    ("field", "absurd"),
    [
        ("memory", -1),
        ("memory", 1 << 60),
        ("memory", True),
        ("memory", 24.5),
        ("index", 5000),
        ("busy", "no"),
        ("model", 7),
        ("verdict", None),
        ("findings", {}),
        ("findings", [7]),
        ("findings", [{}] * 17),
    ],
)
def test_absurd_field_makes_the_entry_unreadable(field: str, absurd: object) -> None:
    value = entries.encode_gpu(gpu())
    value[field] = absurd
    assert entries.parse_gpu(UUID, value) is None


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=12)
        | st.binary(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    ["name", "labels", "verdict", "findings", "gpus", "memory", "items", "admission", "phase"]
                )
                | st.text(max_size=4),
                inner,
                max_size=6,
            )
        ),
        max_leaves=15,
    )
)
def test_parsers_are_total(value: Any) -> None:
    for parse in PARSERS:
        parse(value)


def test_a_silenced_finding_is_silenced_everywhere_and_gives_way_to_those_that_count() -> None:
    silenced = replace(finding("gpu/" + UUID, Severity.CRITICAL, "x" * 200), silenced_until=1.8e9)
    both = gpu(findings=(silenced, finding("gpu/" + UUID)))
    read = entries.parse_gpu(UUID, entries.encode_gpu(both))
    assert read is not None
    assert [item.silenced_until for item in read.findings] == [None, 1.8e9]
    many = entries.parse_gpu(UUID, entries.encode_gpu(gpu(findings=(silenced,) * 20 + (finding(),))))
    assert many is not None
    assert many.findings[0].silenced_until is None
