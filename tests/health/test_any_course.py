"""Whatever a driver does, in whatever order: the report stays sound."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpumesh.health.devices import DeviceState, Probe
from gpumesh.health.inventory import MAX_CARDS
from gpumesh.model import HealthReport, Severity, Verdict
from tests.health.builders import Course, absent, address, answered, geforce, h100, hung, lost, uuid

_NUMBER = st.integers(0, 5)


def _unread(number: int) -> DeviceState:
    return replace(geforce(number), reading=None, error="unknown error (NVML 999)", error_code=999)


def _at(state: DeviceState, index: int) -> DeviceState:
    info = replace(state.info, index=index) if state.info else None
    return replace(state, index=index, info=info)


_CARD = st.one_of(
    _NUMBER.map(geforce),
    _NUMBER.map(h100),
    _NUMBER.map(_unread),
    _NUMBER.map(lost),
    _NUMBER.map(lambda number: lost(number, is_named=False)),
    _NUMBER.map(lambda number: geforce(number, temperature_c=99, ecc_dbe_volatile=2, pcie_width=1)),
    _NUMBER.map(lambda number: geforce(number, pci_bus_id=address(number + 7))),
)
_CARDS = st.lists(_CARD, max_size=6).map(lambda cards: [_at(card, n) for n, card in enumerate(cards)])
_PROBE = st.one_of(
    _CARDS.map(answered),
    _CARDS.map(lambda cards: answered(cards, pci_addresses=None, num_devices=len(cards) + 1)),
    _CARDS.map(hung),
    st.sampled_from([absent(9), absent(12), absent(18), absent(None, "the prober ended")]),
)


def _assert_sound(report: HealthReport, probe: Probe) -> None:
    assert len({gpu.uuid for gpu in report.gpus}) == len(report.gpus) <= MAX_CARDS
    read = {state.info.uuid for state in probe.devices if state.info and state.reading}
    for gpu in report.gpus:
        if gpu.verdict in {Verdict.HEALTHY, Verdict.DEGRADED}:
            assert gpu.uuid in read
        if gpu.uuid not in read:
            assert gpu.is_busy is None
            assert gpu.memory_free_bytes is None
        assert all(finding.subject == f"gpu/{gpu.uuid}" for finding in gpu.findings)
    if probe.driver is None or probe.is_hung:
        assert report.verdict is Verdict.UNHEALTHY
    assert all(finding.subject == "host" for finding in report.findings)
    assert all(finding.reason for finding in report.findings)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(_PROBE, st.sampled_from([0.2, 5.0, 90.0, 40_000.0])), max_size=10))
def test_any_course_of_probes_gives_sound_reports_and_ends_well(steps: list[tuple[Probe, float]]) -> None:
    course = Course()
    for probe, pause_s in steps:
        course.interval_s = pause_s
        _assert_sound(course.look(probe), probe)
    # Whatever happened, four minutes of clean looks at all cards make everything well; changes stay told.
    course.interval_s = 5.0
    report = course.look_for(answered([geforce(number) for number in range(6)]), 240)
    assert report.verdict is Verdict.HEALTHY
    assert report.findings == ()
    assert [(gpu.uuid, gpu.verdict) for gpu in report.gpus] == [(uuid(n), Verdict.HEALTHY) for n in range(6)]
    told = {finding.severity for gpu in report.gpus for finding in gpu.findings}
    assert told <= {Severity.INFO}
