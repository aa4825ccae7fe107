"""Two sources joined, counted and settled."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.config import HealthConfig
from gpumesh.health.devices import Probe, XidEvent
from gpumesh.health.xid_lines import XidSighting, place_of
from gpumesh.health.xids import (
    MAX_KINDS,
    MAX_PLACES,
    NEWS_S,
    XidLog,
    XidRecord,
    settled_from_json,
    settled_to_json,
    sightings_of,
)
from tests.health.builders import absent, address, answered, geforce, h100, hung, lost

PLACE = str(place_of(address(0)))

DEFAULTS = HealthConfig()


def seen(xid: int | None, at: float = 100.0, *, place: str = PLACE, is_kernel: bool = True) -> XidSighting:
    return XidSighting(place, xid, at, is_kernel=is_kernel)


def log_of(sightings: Iterable[XidSighting]) -> XidLog:
    log = XidLog(DEFAULTS)
    for sighting in sightings:
        log.handle_sighting(sighting)
    return log


def only(log: XidLog) -> XidRecord:
    (record,) = log.records()
    return record


def test_an_xid_that_both_sources_tell_is_one() -> None:
    log = log_of([seen(31), seen(31, 100.4, is_kernel=False)])
    assert only(log).num_seen == 1
    log.handle_sighting(seen(31, 200.0, is_kernel=False))
    assert only(log).num_seen == 2
    assert (only(log).first_at, only(log).last_at) == (100.0, 200.0)


def test_nvsentinel_1532_what_the_log_holds_from_before_the_start_counts_too() -> None:
    log = log_of([*(seen(31, at) for at in (5.0, 6.0, 7.0)), seen(31, 400.0, is_kernel=False)])
    assert only(log).num_seen == 3
    log.handle_sighting(seen(31, 400.0))
    assert only(log).num_seen == 4


def test_dcgm_exporter_190_a_repeat_is_news_each_time_and_told_once() -> None:
    log = log_of([seen(31)])
    assert [(record.xid, num_new) for record, num_new in log.next_news(100.0)] == [(31, 1)]
    assert log.next_news(200.0) == ()
    for at in (201.0, 202.0):
        log.handle_sighting(seen(31, at))
    log.handle_sighting(seen(31, 202.0, is_kernel=False))
    assert [(record.num_seen, num_new) for record, num_new in log.next_news(203.0)] == [(3, 2)]


def test_a_flood_is_told_once_a_minute_and_another_xid_at_once() -> None:
    log = XidLog(DEFAULTS)
    told: list[tuple[XidRecord, int]] = []
    for second in range(600):
        log.handle_sighting(seen(31, second))
        told += log.next_news(second)
    assert len(told) == 600 / NEWS_S
    log.handle_sighting(seen(79, 600.0))
    assert [record.xid for record, _ in log.next_news(600.5)] == [31, 79]
    assert sum(num_new for _, num_new in told) == 540 + 1


def test_the_kernels_other_lines_about_a_fall_add_nothing_to_its_xid() -> None:
    log = log_of([seen(79, 100.0), seen(None, 100.2)])
    assert only(log).xid == 79
    log.handle_sighting(seen(None, 5000.0))
    assert [record.xid for record in log.records()] == [79, None]


def test_a_flood_costs_one_row_and_is_counted() -> None:
    log = log_of(seen(31, at) for at in range(50_000))
    assert only(log).num_seen == 50_000
    assert len(log.next_news(0.0)) == 1


def test_cards_and_xids_beyond_the_bounds_are_dropped_and_counted() -> None:
    places = [f"0000{number:04X}:01:00" for number in range(MAX_PLACES + 3)]
    log = log_of(seen(79, place=place) for place in places)
    assert (len(log.records()), log.num_dropped) == (MAX_PLACES, 3)
    for xid in range(1000, 1000 + MAX_KINDS + 5):
        log.handle_sighting(seen(xid, place=places[0]))
    assert log.num_dropped == 3 + 6


def test_an_event_of_the_driver_is_placed_by_its_cards_address() -> None:
    probe = Probe(driver=None, xid_events=(XidEvent(address(0), 79), XidEvent("", 13)))
    assert list(sightings_of(probe, 7.0)) == [seen(79, 7.0, is_kernel=False)]


def test_ten_quiet_minutes_settle_what_the_driver_asks_nothing_for() -> None:
    log = log_of([seen(119, 100.0)])
    log.handle_look(answered([h100()]), 100.0 + DEFAULTS.xid_settle_s - 1)
    assert not only(log).is_settled
    log.handle_look(answered([h100()]), 100.0 + DEFAULTS.xid_settle_s)
    assert only(log).is_settled
    log.handle_sighting(seen(119, 5000.0))
    assert not only(log).is_settled


@pytest.mark.parametrize(
    "probe",
    [
        answered([h100(recovery_action=1)]),
        answered([lost(0)]),
        hung([h100()]),
        absent(12),
        answered([h100(recovery_action=None)]),
    ],
    ids=["asks for a reset", "lost", "hung", "no driver", "cannot say"],
)
def test_ten_minutes_settle_nothing_on_a_card_that_is_not_known_to_be_well(probe: Probe) -> None:
    log = log_of([seen(119, 100.0)])
    for later in range(20):
        log.handle_look(probe, 100.0 + DEFAULTS.xid_settle_s + 60 * later)
    assert not only(log).is_settled


def test_a_driver_too_old_to_ask_settles_after_a_day_and_a_fall_after_ten_minutes() -> None:
    log = log_of([seen(119, 0.0), seen(79, 0.0)])
    old = answered([h100(recovery_action=None)])
    log.handle_look(old, DEFAULTS.xid_settle_s)
    assert [(record.xid, record.is_settled) for record in log.records()] == [(79, True), (119, False)]
    log.handle_look(old, DEFAULTS.xid_settle_untold_s)
    assert all(record.is_settled for record in log.records())


def test_a_card_that_was_gone_and_is_back_has_been_reset() -> None:
    log = log_of([seen(119, 100.0)])
    log.handle_look(answered([lost(0)]), 110.0)
    log.handle_look(answered([geforce()]), 120.0)
    assert only(log).is_settled


def test_a_driver_that_was_unloaded_and_is_back_has_reset_its_cards() -> None:
    log = log_of([seen(119, 100.0)])
    log.handle_look(absent(9), 110.0)
    log.handle_look(answered([geforce()]), 120.0)
    assert only(log).is_settled


def test_an_energy_counter_that_falls_tells_of_a_reset() -> None:
    log = XidLog(DEFAULTS)
    log.handle_look(answered([h100(energy_mj=90_000, recovery_action=None)]), 90.0)
    log.handle_sighting(seen(119, 100.0))
    log.handle_look(answered([h100(energy_mj=95_000, recovery_action=None)]), 110.0)
    assert not only(log).is_settled
    log.handle_look(answered([h100(energy_mj=50, recovery_action=None)]), 120.0)
    assert only(log).is_settled


def test_what_the_driver_takes_back_settles_what_came_before() -> None:
    log = log_of([seen(119, 100.0), XidSighting(PLACE, 154, 101.0, is_kernel=True, asked=1)])
    assert not any(record.is_settled for record in log.records())
    log.handle_sighting(XidSighting(PLACE, 154, 300.0, is_kernel=True, asked=0))
    assert all(record.is_settled for record in log.records())


def test_what_is_settled_stays_so_over_a_restart_and_not_over_a_reboot() -> None:
    log = log_of([seen(119, 100.0)])
    log.handle_look(answered([h100()]), 100.0 + DEFAULTS.xid_settle_s)
    kept = settled_to_json(log.settled, "boot-1")
    again = XidLog(DEFAULTS, settled_from_json(kept, "boot-1"))
    again.handle_sighting(seen(119, 100.0))
    assert only(again).is_settled
    assert settled_from_json(kept, "boot-2") == {}


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_a_damaged_file_settles_nothing_and_stops_nobody(document: object) -> None:
    settled = settled_from_json({"boot_id": "b", "settled": document}, "b")
    assert all(0 <= at < 1e12 for at in settled.values())
    assert settled_from_json(document, "b") == {}
