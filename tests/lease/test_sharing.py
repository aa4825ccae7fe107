from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from gpumesh.config import SharingConfig
from gpumesh.errors import ConfigError
from gpumesh.health.devices import DeviceState, Probe, Process, Reading
from gpumesh.lease.sharing import Sharing, Usage, is_within, lend, observe, outrank, parse_hours
from gpumesh.model import Admission

IDLE = SharingConfig(mode="idle", idle_after_s=900.0)


def test_always_lends_whatever_runs() -> None:
    assert lend(SharingConfig(), Usage(), 0, 0.0) == (Admission.OPEN, "")


def test_idle_lends_only_after_the_cards_were_free_long_enough() -> None:
    usage = observe(Usage(), [], (), 100.0)
    assert lend(IDLE, usage, 0, 100.0)[0] is Admission.OCCUPIED
    usage = observe(usage, [], (), 500.0)
    assert lend(IDLE, usage, 0, 999.0)[0] is Admission.OCCUPIED
    assert lend(IDLE, usage, 0, 1000.0) == (Admission.OPEN, "")


def test_a_persons_program_takes_the_cards_back_at_once() -> None:
    usage = observe(observe(Usage(), [], (), 0.0), ["/opt/games/quake"], (), 2000.0)
    admission, reason = lend(IDLE, usage, 0, 2000.0)
    assert admission is Admission.OCCUPIED
    assert "quake" in reason
    usage = observe(usage, [], (), 2100.0)
    assert lend(IDLE, usage, 0, 2999.0)[0] is Admission.OCCUPIED, "idle counts from its end"


@pytest.mark.parametrize("name", ["Xorg", "/usr/lib/xorg/Xorg"])
def test_ignored_programs_do_not_count(name: str) -> None:
    usage = observe(Usage(), [name], ("Xorg",), 0.0)
    assert not usage.is_used


@pytest.mark.parametrize("processes", [None, [None], ["Xorg", None]])
def test_what_cannot_be_told_counts_as_use(processes: list[str | None] | None) -> None:
    usage = observe(Usage(), processes, ("Xorg",), 0.0)
    assert lend(IDLE, usage, 0, 10_000.0)[0] is Admission.OCCUPIED


def test_before_the_first_look_cards_count_as_used() -> None:
    assert lend(IDLE, Usage(), 0, 10_000.0)[0] is Admission.OCCUPIED


@pytest.mark.parametrize(
    ("clock", "is_open"),
    [
        ("21:59", False),
        ("22:00", True),
        ("23:59", True),
        ("00:00", True),
        ("06:59", True),
        ("07:00", False),
        ("12:15", True),
        ("13:30", False),
    ],
)
def test_hours_cross_midnight_and_combine(clock: str, is_open: bool) -> None:
    config = SharingConfig(mode="schedule", hours="22:00-07:00, 12:00-13:30")
    minute = int(clock[:2]) * 60 + int(clock[3:])
    admission, reason = lend(config, Usage(), minute, 0.0)
    assert admission is (Admission.OPEN if is_open else Admission.OFF_HOURS)
    assert bool(reason) is not is_open


def test_whole_day_and_midnight_as_end() -> None:
    assert all(is_within(parse_hours("08:00-08:00"), minute) for minute in range(1440))
    assert is_within(parse_hours("20:00-24:00"), 1439)
    assert not is_within(parse_hours("20:00-24:00"), 0)


@pytest.mark.parametrize("hours", ["25:00-26:00", "10:61-12:00", "24:01-02:00", "", "ten to two"])
def test_time_that_no_clock_shows_is_refused_by_key(hours: str) -> None:
    with pytest.raises(ConfigError, match=r"sharing\.hours"):
        parse_hours(hours)


def test_operator_outranks_sharing() -> None:
    lent = (Admission.OCCUPIED, "a game runs")
    assert outrank(Admission.DRAINING, "upgrade", *lent) == (Admission.DRAINING, "upgrade")
    assert outrank(Admission.CORDONED, "upgrade", *lent) == (Admission.CORDONED, "upgrade")
    assert outrank(Admission.OPEN, "", *lent) == lent


def seen(*processes: list[str | None] | None, is_lost: bool = False) -> Probe:
    devices = tuple(
        DeviceState(
            index,
            None,
            None
            if names is None
            else Reading(processes=tuple(Process(1, "graphics", None, name) for name in names)),
            is_lost=is_lost,
        )
        for index, names in enumerate(processes)
    )
    return Probe(None, devices)


def test_sharing_follows_the_looks_at_the_cards() -> None:
    sharing = Sharing(IDLE)
    noon = datetime(2026, 5, 1, 12, 0, tzinfo=timezone.utc)
    assert sharing.judge(seen(["Xorg"]), noon, 0.0)[0] is Admission.OCCUPIED
    assert sharing.judge(seen([], []), noon, 10.0)[0] is Admission.OCCUPIED
    assert sharing.judge(seen([], []), noon, 910.0) == (Admission.OPEN, "")
    assert sharing.judge(seen([], None), noon, 920.0)[0] is Admission.OCCUPIED, "one card cannot say"


def test_lost_card_alone_does_not_count_as_used() -> None:
    sharing = Sharing(SharingConfig(mode="idle", idle_after_s=0.0))
    noon = datetime(2026, 5, 1, 12, 0, tzinfo=timezone.utc)
    both = Probe(None, (*seen([]).devices, *seen(None, is_lost=True).devices))
    assert sharing.judge(both, noon, 0.0) == (Admission.OPEN, "")


def test_schedule_reads_the_local_clock() -> None:
    sharing = Sharing(SharingConfig(mode="schedule", hours="22:00-07:00"))
    zone = timezone(timedelta(hours=9))
    assert sharing.judge(seen([]), datetime(2026, 5, 1, 23, 30, tzinfo=zone), 0.0)[0] is Admission.OPEN
    assert sharing.judge(seen([]), datetime(2026, 5, 1, 12, 0, tzinfo=zone), 0.0)[0] is Admission.OFF_HOURS


def test_impossible_hours_are_refused_when_the_rule_is_made() -> None:
    with pytest.raises(ConfigError, match=r"sharing\.hours"):
        Sharing(SharingConfig(mode="schedule", hours="25:00-26:00"))
