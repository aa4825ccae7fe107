from __future__ import annotations

from dataclasses import replace

import pytest

from gpumesh.health.devices import DriverInfo, Probe
from gpumesh.health.hang import Hang, HangWatch, hang_from_json, hang_to_json
from tests.health.builders import DRIVER, absent, answered, geforce, hung

BOOT = "b0070000-0000-4000-8000-000000000001"
CALL = "nvmlDeviceGetTemperature"


def test_a_hang_stands_since_the_call_that_did_not_return() -> None:
    watch = HangWatch()
    watch.handle_probe(hung(), 105.0)
    assert watch.standing == Hang(since_at=100.0, call=CALL)


def test_it_keeps_its_beginning_and_takes_the_newest_call() -> None:
    watch = HangWatch()
    watch.handle_probe(hung(), 105.0)
    probe = watch.handle_probe(hung(call="nvmlInit"), 165.0)
    assert watch.standing == Hang(since_at=100.0, call="nvmlInit")
    assert (probe.call, probe.hung_for_s) == ("nvmlInit", 65.0)


def test_a_look_behind_a_stuck_one_of_an_earlier_run_tells_when_the_hang_began_and_in_which_call() -> None:
    """A process is found in /proc by its own age, which is not the hang's; nor does /proc name its call."""
    watch = HangWatch(Hang(since_at=100.0, call=CALL))
    probe = watch.handle_probe(replace(hung(call=""), hung_for_s=9_000.0), 130.0)
    assert (probe.is_hung, probe.call, probe.hung_for_s) == (True, CALL, 30.0)


def test_a_look_that_succeeds_ends_it() -> None:
    watch = HangWatch(Hang(since_at=100.0, call=CALL))
    well = answered([geforce(0)])
    assert watch.handle_probe(well, 130.0) is well
    assert watch.standing is None


def test_a_refusal_is_an_answer() -> None:
    watch = HangWatch(Hang(since_at=100.0, call=CALL))
    gone = absent(9)
    assert watch.handle_probe(gone, 130.0) is gone
    assert watch.standing is None


@pytest.mark.parametrize(
    ("driver", "error"),
    [
        (None, "the prober cannot be started: Out of memory"),
        (DRIVER, "the prober was ended by signal 6 (SIGABRT) in nvmlDeviceGetName on gpu 0"),
    ],
)
def test_a_look_that_did_not_come_to_its_end_ends_nothing(driver: DriverInfo | None, error: str) -> None:
    watch = HangWatch(Hang(since_at=100.0, call=CALL))
    probe = watch.handle_probe(Probe(driver=driver, error=error), 130.0)
    assert (probe.is_hung, probe.call, probe.hung_for_s, probe.error) == (True, CALL, 30.0, error)
    assert watch.standing == Hang(since_at=100.0, call=CALL)


def test_such_a_look_is_no_hang_where_none_stands() -> None:
    watch = HangWatch()
    failed = Probe(driver=None, error="the prober cannot be started: Out of memory")
    assert watch.handle_probe(failed, 130.0) is failed
    assert watch.standing is None


def test_before_the_first_look_there_is_a_look_to_show_where_a_hang_stands() -> None:
    probe = HangWatch(Hang(since_at=100.0, call=CALL)).before_the_first_look(130.0)
    assert probe is not None
    assert (probe.driver, probe.is_hung, probe.call, probe.hung_for_s) == (None, True, CALL, 30.0)
    assert "earlier run" in probe.error
    assert HangWatch().before_the_first_look(130.0) is None


def test_what_is_kept_comes_back_within_the_same_boot_alone() -> None:
    document = hang_to_json(Hang(since_at=100.0, call=CALL), BOOT)
    assert hang_from_json(document, BOOT, 130.0) == Hang(since_at=100.0, call=CALL)
    assert hang_from_json(document, "another boot", 130.0) is None
    assert hang_from_json(None, BOOT, 130.0) is None


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"boot_id": 7},
        {"since_at": None},
        {"since_at": True},
        {"since_at": float("nan")},
        {"since_at": -1.0},
        {"since_at": 131.0},
        {"call": None},
        {"call": "x" * 129},
        {"call": "nvmlInit\n"},
    ],
)
def test_a_document_that_is_none_is_refused_with_its_place(change: dict[str, object]) -> None:
    document = hang_to_json(Hang(since_at=100.0, call=CALL), BOOT) | change
    with pytest.raises(ValueError, match=next(iter(change))):
        hang_from_json(document, BOOT, 130.0)
