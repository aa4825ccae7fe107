from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumesh.model import Reachability
from gpumesh.sim.measures import Measures, MeasureTaker, percentile, summary_lines
from gpumesh.swim.ports import MemberChanged

if TYPE_CHECKING:
    from tests.sim.conftest import FakeWorld, MakeWorld


def failed(world: FakeWorld, number: int) -> MemberChanged:
    host = world.hosts[number]
    epoch = host.identity.epoch
    return MemberChanged(
        host.host_id, host.address, epoch, 0, Reachability.SUSPECT, Reachability.FAILED, "said the test"
    )


def test_detection_counts_from_the_crash_to_the_first_and_the_last_survivor(make_world: MakeWorld) -> None:
    taker = MeasureTaker()
    world = make_world(4, watches=[taker])
    world.run_for(10.0)
    world.crash(world.hosts[3])
    for number in range(3):
        world.run_for(2.0)
        world.say(number, failed(world, 3))
    measures = taker.take(world)
    assert list(measures.first_detected_s) == pytest.approx([2.0])
    assert list(measures.all_detected_s) == pytest.approx([6.0])
    assert measures.num_undetected == measures.num_false == 0


def test_crash_that_one_survivor_never_showed_is_undetected(make_world: MakeWorld) -> None:
    taker = MeasureTaker()
    world = make_world(3, watches=[taker])
    world.run_for(10.0)
    world.crash(world.hosts[2])
    world.say(0, failed(world, 2))
    measures = taker.take(world)
    assert measures.all_detected_s == ()
    assert measures.num_undetected == 1


def test_false_failures_are_told_apart_by_who_was_impaired(make_world: MakeWorld) -> None:
    taker = MeasureTaker()
    world = make_world(4, watches=[taker])
    world.truth.impair([2, 3], world.now)
    world.say(0, failed(world, 1))
    world.say(2, failed(world, 1))
    world.run_for(4.0)
    world.say(0, failed(world, 3))
    measures = taker.take(world)
    assert (measures.num_false, measures.num_false_at_healthy, measures.num_impaired_failed) == (2, 1, 1)
    assert list(measures.impaired_detected_s) == pytest.approx([4.0])


def test_percentile_is_the_nearest_rank() -> None:
    values = [float(value) for value in range(1, 101)]
    assert percentile(values, 0.5) == 50.0
    assert percentile(values, 0.99) == 99.0
    assert percentile(values, 1.0) == 100.0
    assert percentile([7.0], 0.0) == 7.0
    assert percentile([], 0.5) is None


def test_summary_names_all_figures() -> None:
    text = "\n".join(summary_lines([Measures(first_detected_s=(1.5,), num_false=3, bytes_a_host_s=250.0)]))
    assert "first to know" in text
    assert "1.50 / 1.50 / 1.50" in text
    assert "false failures   3" in text
    assert "250 bytes/s" in text
