from __future__ import annotations

from dataclasses import replace

from gpumesh.health.devices import DeviceState
from gpumesh.health.lastreadings import MAX_CARDS, LastReadings
from tests.health.builders import absent, answered, geforce, lost


def resting(number: int = 0) -> DeviceState:
    return replace(geforce(number), reading=None, is_resting=True)


def test_a_resting_card_keeps_what_it_said_with_its_instant_and_has_no_reading() -> None:
    last = LastReadings()
    card = geforce(temperature_c=41)
    assert last.handle_probe(answered([card]), 1000.0).devices == (card,)
    for unix in (1005.0, 4600.0):
        (state,) = last.handle_probe(answered([resting()]), unix).devices
        assert state.reading is None
        assert (state.last_reading, state.last_read_unix) == (card.reading, 1000.0)


def test_a_card_that_wakes_says_its_own() -> None:
    last = LastReadings()
    last.handle_probe(answered([geforce(temperature_c=41)]), 1000.0)
    last.handle_probe(answered([resting()]), 1005.0)
    (awake,) = last.handle_probe(answered([geforce(temperature_c=50)]), 1010.0).devices
    assert awake.last_reading is None
    (state,) = last.handle_probe(answered([resting()]), 1015.0).devices
    assert state.last_read_unix == 1010.0


def test_gpu_monitoring_tools_188_what_a_card_said_before_it_failed_is_not_kept() -> None:
    last = LastReadings()
    last.handle_probe(answered([geforce()]), 1000.0)
    (failed,) = last.handle_probe(answered([lost(0)]), 1005.0).devices
    assert failed.last_reading is None
    (state,) = last.handle_probe(answered([resting()]), 1010.0).devices
    assert (state.last_reading, state.last_read_unix) == (None, None)


def test_a_card_that_sleeps_since_before_the_start_has_said_nothing() -> None:
    last = LastReadings()
    nameless = DeviceState(0, None, None, is_resting=True)
    assert last.handle_probe(answered([nameless]), 1000.0).devices == (nameless,)
    (state,) = last.handle_probe(answered([resting()]), 1000.0).devices
    assert (state.last_reading, state.last_read_unix) == (None, None)


def test_without_a_driver_nothing_changes() -> None:
    probe = absent(9)
    assert LastReadings().handle_probe(probe, 1000.0) is probe


def test_the_table_is_bounded() -> None:
    last = LastReadings()
    for number in range(MAX_CARDS + 8):
        last.handle_probe(answered([geforce(number)]), 1000.0)
    assert len(last._readings) == MAX_CARDS
