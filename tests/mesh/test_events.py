from __future__ import annotations

from dataclasses import replace

import pytest

from gpumesh.mesh.events import KINDS, MAX_EVENTS, EventQueue, Reporter, is_lost, member_kind
from gpumesh.model import (
    Address,
    Baseline,
    BaselineItem,
    Event,
    Finding,
    Gpu,
    HostState,
    Reachability,
    Severity,
    Verdict,
)
from gpumesh.swim.ports import MemberChanged

ALIVE, SUSPECT, FAILED, LEFT = Reachability
LOST = Finding("inventory", "gpu/GPU-1", Severity.CRITICAL, "is gone", evidence={"code": "lost"})
GPU = Gpu("GPU-1", 0, "RTX 4090", verdict=Verdict.HEALTHY)


def change(before: Reachability | None, after: Reachability, *, is_new_epoch: bool = False) -> MemberChanged:
    return MemberChanged("id", Address("10.0.0.1", 7977), 1, 4, before, after, "because", is_new_epoch)


@pytest.fixture
def queue() -> EventQueue:
    return EventQueue()


@pytest.fixture
def reporter(queue: EventQueue) -> Reporter:
    return Reporter(queue, "id", "host-1", 1.8e9)


def drain(queue: EventQueue) -> list[Event]:
    events = []
    while (event := queue.take()) is not None:
        events.append(event)
    return events


@pytest.mark.parametrize(
    ("before", "after", "is_new_epoch", "kind"),
    [
        (None, ALIVE, False, "host.joined"),
        (FAILED, ALIVE, True, "host.joined"),
        (ALIVE, ALIVE, True, "host.joined"),
        (LEFT, ALIVE, False, "host.joined"),
        (ALIVE, ALIVE, False, ""),
        (ALIVE, SUSPECT, False, "host.suspected"),
        (SUSPECT, ALIVE, False, "host.refuted"),
        (FAILED, ALIVE, False, "host.refuted"),
        (SUSPECT, FAILED, False, "host.failed"),
        (ALIVE, LEFT, False, "host.left"),
        (None, FAILED, False, ""),
        (None, LEFT, False, ""),
        (FAILED, FAILED, False, ""),
    ],
)
def test_each_change_of_membership_has_its_kind(
    before: Reachability | None, after: Reachability, is_new_epoch: bool, kind: str
) -> None:
    assert member_kind(change(before, after, is_new_epoch=is_new_epoch)) == kind
    assert kind in {"", *KINDS}


def test_member_event_carries_instant_name_reason_and_fields(queue: EventQueue, reporter: Reporter) -> None:
    reporter.tell_member(replace(change(ALIVE, SUSPECT), accusers=("id-2", "id-3")), "because")
    (event,) = drain(queue)
    assert (event.kind, event.time, event.host_id, event.host) == ("host.suspected", 1.8e9, "id", "host-1")
    assert event.reason == "because"
    assert event.fields == {
        "address": "10.0.0.1:7977",
        "epoch": 1,
        "incarnation": 4,
        "accusers": "id-2,id-3",
    }


def test_state_event_names_both_states(queue: EventQueue, reporter: Reporter) -> None:
    reporter.tell_state(HostState.COOLDOWN, HostState.READY, "")
    (event,) = drain(queue)
    assert event.fields == {"from": "cooldown", "to": "ready"}
    assert event.reason


def test_lost_card_is_told_once_with_its_verdict(queue: EventQueue, reporter: Reporter) -> None:
    lost = replace(GPU, index=None, verdict=Verdict.UNHEALTHY, findings=(LOST,))
    reporter.tell_gpus({"GPU-1": GPU}, {"GPU-1": lost})
    reporter.tell_gpus({"GPU-1": lost}, {"GPU-1": lost})
    assert [(event.kind, event.subject, event.reason) for event in drain(queue)] == [
        ("gpu.lost", "gpu/GPU-1", "is gone"),
        ("gpu.verdict", "gpu/GPU-1", "is gone"),
    ]


def test_card_met_for_the_first_time_is_no_news(queue: EventQueue, reporter: Reporter) -> None:
    reporter.tell_gpus({}, {"GPU-1": replace(GPU, verdict=Verdict.UNHEALTHY)})
    assert drain(queue) == []


def test_card_is_lost_by_index_or_by_finding() -> None:
    assert not is_lost(GPU)
    assert is_lost(replace(GPU, index=None))
    assert is_lost(replace(GPU, findings=(LOST,)))


def test_changed_baseline_names_the_lines(queue: EventQueue, reporter: Reporter) -> None:
    item = BaselineItem("driver", "550 or newer", "550.54.14", is_met=True)
    before = Baseline("warn", "built-in", (item,))
    reporter.tell_baseline(before, before)
    reporter.tell_baseline(None, before)
    assert drain(queue) == []
    reporter.tell_baseline(before, replace(before, items=(replace(item, found="535.1", is_met=False),)))
    (event,) = drain(queue)
    assert event.kind == "baseline.changed"
    assert event.reason == "driver is not met: 535.1, expected 550 or newer"


def test_queue_is_bounded_and_counts_what_nobody_read(queue: EventQueue, reporter: Reporter) -> None:
    for number in range(MAX_EVENTS + 3):
        reporter.tell("host.state", str(number))
    assert len(queue) == MAX_EVENTS
    assert queue.num_dropped == 3
    assert drain(queue)[0].reason == "3"
