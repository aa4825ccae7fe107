"""How often a host is looked at, in virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpumesh.config import Config, GpuConfig, parse
from gpumesh.errors import ConfigError
from gpumesh.health.cadence import Cadence
from gpumesh.health.devices import DeviceState, Probe
from tests.health.builders import HOST, UNIX, Course, absent, answered, busy, geforce, h100, hung, lost


class Watch:
    """A host looked at as often as its cadence says; the clock is the test's."""

    def __init__(self, config: Config | None = None) -> None:
        self.course = Course(config)
        self.cadence = Cadence(config or Config())

    def look(self, probe: Probe) -> float:
        """Look once and return the pause that follows."""
        health = self.course.health
        report = health.handle_probe(probe, HOST, self.course.now, UNIX + self.course.now)
        pause_s = self.cadence.handle_look(report, probe, self.course.now, is_unsettled=health.is_unsettled)
        self.course.now += pause_s
        return pause_s

    def look_for(self, probe: Probe, seconds: float) -> list[float]:
        """Look until that many seconds have passed; return the pauses."""
        until, pauses = self.course.now + seconds, []
        while self.course.now < until:
            pauses.append(self.look(probe))
        return pauses


RESTING = replace(geforce(), reading=None, is_resting=True)


@pytest.mark.parametrize(
    "card",
    [
        pytest.param(geforce(), id="idle"),
        pytest.param(geforce(processes=(busy(kind="graphics", name="Xorg"),)), id="a desktop"),
        pytest.param(RESTING, id="asleep"),
    ],
)
def test_a_host_at_rest_is_looked_at_less_often_after_a_minute(card: DeviceState) -> None:
    watch = Watch()
    watch.look(answered([geforce()]))
    pauses = watch.look_for(answered([card]), 600)
    assert pauses[:11] == [5.0] * 11
    assert pauses[-1] == 7.5
    assert pauses == sorted(pauses), "it grows, step by step"


@pytest.mark.parametrize(
    "probe",
    [
        pytest.param(answered([geforce(processes=(busy(),))]), id="work"),
        pytest.param(answered([geforce(utilization_gpu_percent=3)]), id="use by nobody known"),
        pytest.param(answered([h100(ecc_dbe_volatile=1)]), id="a card that is ill"),
        pytest.param(answered([replace(geforce(), reading=None, error="NVML 999")]), id="a card unread"),
        pytest.param(answered([geforce(), lost(1)]), id="a card lost"),
        pytest.param(absent(9), id="no driver"),
        pytest.param(hung([geforce()]), id="a driver that hangs"),
    ],
)
def test_a_host_that_is_used_or_not_well_is_looked_at_as_often_as_it_says(probe: Probe) -> None:
    watch = Watch()
    watch.look_for(answered([geforce()]), 600)
    assert set(watch.look_for(probe, 600)[:1]) <= {5.0, 2.0}
    assert set(watch.look_for(probe, 600)) == {5.0}


def test_the_first_work_ends_the_rest_at_once() -> None:
    watch = Watch()
    assert watch.look_for(answered([geforce()]), 600)[-1] == 7.5
    assert watch.look(answered([geforce(processes=(busy(),))])) == 5.0
    assert watch.look(answered([geforce()])) == 5.0


@pytest.mark.parametrize(
    "change", [{"pcie_width": 8}, {"temperature_c": 97, "fan_percent": 90}, {"temperature_c": 75}]
)
def test_a_card_that_begins_to_look_ill_is_looked_at_more_often_until_it_is_told(
    change: dict[str, Any],
) -> None:
    watch = Watch()
    watch.look_for(answered([geforce()]), 600)
    ill = answered([geforce(**change)])
    pauses = watch.look_for(ill, 300)
    assert pauses[0] == 2.0
    assert pauses[-1] == 5.0, "once it is told, there is no haste"
    assert pauses.count(2.0) <= 31


def test_a_fault_that_goes_is_watched_closely_and_then_left_alone() -> None:
    watch = Watch()
    watch.look_for(answered([geforce(pcie_width=8)]), 120)
    pauses = watch.look_for(answered([geforce()]), 1200)
    assert pauses[0] == 2.0
    assert pauses[-1] == 7.5


def test_what_takes_ten_minutes_to_be_told_is_no_reason_to_disturb() -> None:
    """nvidia_gpu_exporter#90: a game stutters with each look."""
    watch = Watch()
    playing = answered([geforce(clocks_event_reasons=0x20, processes=(busy(name="game"),))])
    assert set(watch.look_for(playing, 1800)) == {5.0}


@pytest.mark.parametrize(("duration_s", "pause_s"), [(0.3, 5.0), (0.8, 8.0), (6.0, 10.0)])
def test_netdata_14522_a_slow_driver_is_asked_less_often(duration_s: float, pause_s: float) -> None:
    watch = Watch(Config(gpu=GpuConfig(deadline_s=20.0)))
    card = geforce(processes=(busy(),))
    assert set(watch.look_for(answered([card], duration_s=duration_s), 300)) == {pause_s}


def test_nothing_passes_the_longest_time_and_nothing_is_quicker_than_the_shortest() -> None:
    config = parse('[gpu]\ninterval_min = "4s"\ninterval_max = "6s"\ndeadline = "60s"')
    watch = Watch(config)
    looks = [
        *watch.look_for(answered([geforce()]), 600),
        *watch.look_for(answered([geforce(pcie_width=8)], duration_s=50.0), 120),
        *watch.look_for(answered([geforce(temperature_c=97, fan_percent=90)]), 50),
    ]
    assert (min(looks), max(looks)) == (4.0, 6.0)


def test_where_both_are_the_interval_it_never_changes() -> None:
    watch = Watch(parse('[gpu]\ninterval = "5s"\ninterval_min = "5s"\ninterval_max = "5s"'))
    looks = watch.look_for(answered([geforce()]), 600) + watch.look_for(answered([geforce(pcie_width=8)]), 90)
    assert set(looks) == {5.0}


def test_a_look_that_told_nothing_is_followed_by_the_usual_pause() -> None:
    watch = Watch()
    watch.look_for(answered([geforce()]), 600)
    assert watch.cadence.handle_failure() == 5.0


@pytest.mark.parametrize(
    ("content", "shortest_s", "longest_s"),
    [
        ("", 2.0, 10.0),
        ('[gpu]\ninterval = "200ms"', 0.08, 0.4),
        ('[gpu]\ninterval = "20s"', 8.0, 30.0),
        ('[gpu]\ninterval = "2m"', 48.0, 120.0),
        ('[gpu]\ninterval = "20s"\ninterval_max = "auto"\n[lease]\nttl = "60s"', 8.0, 40.0),
    ],
)
def test_what_is_not_said_follows_from_the_interval_and_the_lease(
    content: str, shortest_s: float, longest_s: float
) -> None:
    config = parse(content)
    assert config.shortest_look_s == pytest.approx(shortest_s)
    assert config.longest_look_s == pytest.approx(longest_s)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            '[gpu]\ninterval_max = "31s"',
            r"gpu\.interval_max: must be from .* \(5s\) to lease\.ttl \(30s\)",
        ),
        ('[gpu]\ninterval_max = "4s"', r"gpu\.interval_max: must be from gpu\.interval"),
        ('[gpu]\ninterval_min = "6s"', r"gpu\.interval_min: must be at most gpu\.interval \(5s\)"),
        ("[gpu]\ninterval_min = 3", r'gpu\.interval_min = 3: .*, or "auto"'),
    ],
)
def test_bounds_at_odds_are_refused_by_name(content: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(content)
