"""How busy each MIG instance is: two samples make a value, and no sample is left behind."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpumesh.health.devices import MigInstance
from gpumesh.health.nvml import SELDOM_LOOKS, NvmlDriver
from gpumesh.health.nvml_gpm import CALLS, Moment
from tests.fakes.nvml import build
from tests.fakes.nvml.fixtures import read
from tests.fakes.nvml.state import FakeDriver

LARGE = "3g.40gb 2 0 40448MiB 26MiB 60"
SMALL = "1g.10gb 9 0 9984MiB 9MiB 16"
LOOK_S = 5.0
Activity = tuple[float | None, float | None, float | None]
UNKNOWN: Activity = (None, None, None)


@dataclasses.dataclass
class Clock:
    """Both clocks; the machine is awake unless told."""

    awake_s: float = 100.0
    boot_s: float = 100.0

    def __call__(self) -> Moment:
        return Moment(self.awake_s, self.boot_s)

    def advance(self, by_s: float) -> None:
        self.awake_s += by_s
        self.boot_s += by_s

    def suspend(self, by_s: float) -> None:
        self.boot_s += by_s


class Looking:
    """A driver, looked at as the prober does: all cards, every five seconds."""

    def __init__(self, root: Path) -> None:
        self.clock = Clock()
        self.calls: list[str] = []
        self.driver = NvmlDriver(root=root, announce=self.calls.append, clock=self.clock)

    def look(self, index: int = 0, *, after_s: float = LOOK_S) -> tuple[MigInstance, ...]:
        self.clock.advance(after_s)
        self.driver.count()
        return read(self.driver, index).mig_instances or ()

    def activity(self, index: int = 0, *, after_s: float = LOOK_S) -> list[Activity]:
        return [activity_of(item) for item in self.look(index, after_s=after_s)]

    def num_calls(self, name: str) -> int:
        return sum(call.startswith(name) for call in self.calls)


def activity_of(instance: MigInstance) -> Activity:
    return (
        instance.utilization_gpu_percent,
        instance.utilization_sm_percent,
        instance.utilization_memory_bandwidth_percent,
    )


@pytest.fixture
def looking(cards: FakeDriver, tmp_path: Path) -> Iterator[Looking]:
    """Its samples are all freed when the driver was let go of, whatever the test did."""
    made = Looking(tmp_path)
    yield made
    made.driver.close()
    assert num_samples() == 0


def num_samples() -> int:
    """How many samples the library has allocated now."""
    count = ctypes.CDLL(str(build.library() / build.LIBRARY)).fake_nvml_num_samples
    count.restype = ctypes.c_uint
    return int(count())


def carve(cards: FakeDriver, *instances: str, profile: str = "h100") -> int:
    slot = cards.add_gpu(profile)
    cards.set(slot, "mig_mode", 1)
    for place, instance in enumerate(instances, 1):
        cards.set(slot, f"mig {place}", instance)
    return slot


def test_the_first_look_has_nothing_to_tell_and_each_later_one_tells_every_instance(
    cards: FakeDriver, looking: Looking, binding: str
) -> None:
    slot = carve(cards, f"{LARGE} busy 99.5 87.25 41.128", f"{SMALL} busy 0 0 0")
    looking.driver.open()
    assert looking.activity() == [UNKNOWN, UNKNOWN]
    assert looking.activity() == [(99.5, 87.25, 41.13), (0, 0, 0)]
    cards.set(slot, "mig 1", f"{LARGE} busy 12 7 3")
    assert looking.activity() == [(12, 7, 3), (0, 0, 0)]
    assert num_samples() == 4, "two an instance, used in turn"
    assert looking.num_calls("nvmlGpmMigSampleGet") == 6, "one an instance and look"
    assert looking.num_calls("nvmlGpmQueryDeviceSupport") == 1


def test_compute_instances_that_share_a_gpu_instance_share_its_activity_and_its_samples(
    cards: FakeDriver, looking: Looking
) -> None:
    carve(cards, f"{SMALL} busy 50 40 30", "1c.1g.10gb 9 1 9984MiB 9MiB 8")
    looking.driver.open()
    looking.look()
    assert looking.activity() == [(50, 40, 30), (50, 40, 30)]
    assert num_samples() == 2


def test_a_card_that_is_whole_is_asked_nothing_of_this(cards: FakeDriver, looking: Looking) -> None:
    cards.add_gpu("h100")
    cards.add_gpu("rtx-4080-super")
    looking.driver.open()
    for _ in range(2):
        assert (looking.look(0), looking.look(1)) == ((), ())
    assert looking.num_calls("nvmlGpm") == 0


def test_a_card_without_gpm_is_asked_once(cards: FakeDriver, looking: Looking) -> None:
    slot = carve(cards, f"{SMALL} busy 50 40 30", profile="a100")
    looking.driver.open()
    for _ in range(3):
        assert looking.activity() == [UNKNOWN]
    assert looking.num_calls("nvmlGpm") == 1
    cards.set(slot, "mig_mode", 0)
    looking.look()
    cards.set(slot, "mig_mode", 1)
    cards.set(slot, "gpm_supported", 1)
    looking.look()
    assert looking.activity() == [(50, 40, 30)], "carved up anew it may"


@pytest.mark.parametrize("code", [3, 13])
@pytest.mark.parametrize("call", ["SampleAlloc", "MigSampleGet", "MetricsGet", "QueryDeviceSupport"])
def test_what_is_not_supported_is_remembered_and_leaves_no_sample(
    cards: FakeDriver, looking: Looking, call: str, code: int
) -> None:
    carve(cards, f"{SMALL} busy 50 40 30")
    cards.fail(f"nvmlGpm{call}", code)
    looking.driver.open()
    for _ in range(4):
        assert looking.activity() == [UNKNOWN]
    assert looking.num_calls(f"nvmlGpm{call}") == 1
    assert num_samples() == 0


@pytest.mark.parametrize("call", CALLS)
def test_a_binding_that_lacks_a_call_is_like_a_driver_without_it(
    cards: FakeDriver, looking: Looking, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    carve(cards, f"{SMALL} busy 50 40 30")
    monkeypatch.delattr(f"pynvml.{call}")
    looking.driver.open()
    for _ in range(3):
        assert looking.activity() == [UNKNOWN]
    assert looking.num_calls("nvmlGpm") == 0


def test_an_instance_of_which_gpm_does_not_tell_hides_no_other_and_is_asked_once(
    cards: FakeDriver, looking: Looking
) -> None:
    carve(cards, LARGE, f"{SMALL} busy 50 40 30")
    looking.driver.open()
    looking.look()
    assert looking.activity() == [UNKNOWN, (50, 40, 30)]
    assert looking.num_calls("nvmlGpmMigSampleGet") == 3


def test_a_metric_that_is_not_told_is_absent_alone(cards: FakeDriver, looking: Looking) -> None:
    carve(cards, f"{SMALL} busy 50 none 30")
    looking.driver.open()
    looking.look()
    assert looking.activity() == [(50, None, 30)]


def test_a_failure_is_absent_this_time_and_no_error_of_the_card(cards: FakeDriver, looking: Looking) -> None:
    carve(cards, f"{SMALL} busy 50 40 30")
    looking.driver.open()
    looking.look()
    cards.fail("nvmlGpmMetricsGet", 2)
    assert looking.activity() == [UNKNOWN], "as for two samples that NVML finds too close together"
    cards.clear_faults()
    assert looking.activity() == [(50, 40, 30)]
    cards.fail("nvmlGpmMigSampleGet", 999)
    assert looking.activity() == [UNKNOWN]
    assert num_samples() == 0
    cards.clear_faults()
    assert looking.activity() == [UNKNOWN], "the first of two again"
    assert looking.activity() == [(50, 40, 30)]


def test_of_two_looks_in_one_tenth_of_a_second_the_later_tells_nothing_and_takes_no_sample(
    cards: FakeDriver, looking: Looking
) -> None:
    carve(cards, f"{SMALL} busy 50 40 30")
    looking.driver.open()
    looking.look()
    assert looking.activity(after_s=0.05) == [UNKNOWN]
    assert looking.activity(after_s=0.04) == [UNKNOWN]
    assert looking.num_calls("nvmlGpmMigSampleGet") == 1
    assert looking.activity(after_s=0.04) == [(50, 40, 30)], "0.13 s after the first sample"


def test_samples_from_before_and_after_a_suspend_are_not_held_against_each_other(
    cards: FakeDriver, looking: Looking
) -> None:
    carve(cards, f"{SMALL} busy 50 40 30")
    looking.driver.open()
    looking.look()
    looking.clock.suspend(3600.0)
    assert looking.activity() == [UNKNOWN]
    assert looking.activity() == [(50, 40, 30)]


def test_a_card_that_a_look_left_asleep_begins_anew(cards: FakeDriver, looking: Looking) -> None:
    carve(cards, f"{SMALL} busy 50 40 30")
    looking.driver.open()
    looking.look()
    looking.driver.count()
    assert looking.activity() == [UNKNOWN]
    assert looking.activity() == [(50, 40, 30)]


@pytest.mark.parametrize("absurd", ["100.5", "-1", "nan", "inf", "1.8e19"])
def test_absurd_activity_is_dropped_and_counted(cards: FakeDriver, looking: Looking, absurd: str) -> None:
    carve(cards, f"{SMALL} busy 50 {absurd} 30")
    looking.driver.open()
    looking.look()
    looking.clock.advance(LOOK_S)
    state = looking.driver.probe_device(0)
    assert state.num_dropped == 1
    assert state.reading is not None
    assert [activity_of(item) for item in state.reading.mig_instances or ()] == [(50, None, 30)]


def test_an_instance_that_vanishes_takes_its_samples_along(cards: FakeDriver, looking: Looking) -> None:
    slot = carve(cards, f"{LARGE} busy 50 40 30", f"{SMALL} busy 9 8 7")
    looking.driver.open()
    looking.look()
    cards.set(slot, "mig 1", None)
    assert looking.activity() == [UNKNOWN, (9, 8, 7)], "the layout is read once in a while"
    assert num_samples() == 2
    for _ in range(SELDOM_LOOKS):
        looking.look()
    assert looking.activity() == [(9, 8, 7)]
    cards.set(slot, "mig 2", None)
    for _ in range(SELDOM_LOOKS):
        looking.look()
    assert (looking.look(), num_samples()) == ((), 0)


def test_another_instance_under_the_number_of_one_that_went_begins_anew(
    cards: FakeDriver, looking: Looking
) -> None:
    slot = carve(cards, f"{SMALL} busy 50 40 30")
    looking.driver.open()
    for _ in range(SELDOM_LOOKS):
        looking.look()
    cards.set(slot, "mig 1", "1c.1g.10gb 9 3 9984MiB 9MiB 8 busy 9 8 7")
    assert looking.activity() == [UNKNOWN]
    assert looking.activity() == [(9, 8, 7)]
    assert num_samples() == 2


def test_mig_switched_off_frees_the_samples(cards: FakeDriver, looking: Looking) -> None:
    slot = carve(cards, f"{LARGE} busy 50 40 30", f"{SMALL} busy 9 8 7")
    looking.driver.open()
    looking.look()
    assert num_samples() == 4
    cards.set(slot, "mig_mode", 0)
    assert (looking.look(), num_samples()) == ((), 0)


def test_a_card_that_leaves_the_driver_frees_its_samples(cards: FakeDriver, looking: Looking) -> None:
    carve(cards, f"{LARGE} busy 50 40 30")
    gone = carve(cards, f"{SMALL} busy 9 8 7")
    looking.driver.open()
    looking.look(0)
    read(looking.driver, gone)
    assert num_samples() == 4
    cards.remove_gpu(gone)
    looking.look()
    assert num_samples() == 2


def test_a_driver_that_is_let_go_of_has_all_samples_back_before_it_is_shut_down(
    cards: FakeDriver, looking: Looking, binding: str
) -> None:
    carve(cards, f"{LARGE} busy 50 40 30", f"{SMALL} busy 9 8 7")
    carve(cards, f"{SMALL} busy 1 2 3")
    looking.driver.open()
    looking.look(0)
    looking.look(1)
    assert num_samples() == 6
    looking.driver.close()
    assert num_samples() == 0, "the library frees none once it is shut down"
    looking.driver.open()
    assert looking.activity() == [UNKNOWN, UNKNOWN], "nothing of the session before"
    assert looking.activity() == [(50, 40, 30), (9, 8, 7)]


def test_a_card_that_is_lost_in_the_middle_is_lost_and_leaves_no_sample(
    cards: FakeDriver, looking: Looking
) -> None:
    slot = carve(cards, f"{SMALL} busy 50 40 30")
    looking.driver.open()
    looking.look()
    cards.fail("nvmlGpmMigSampleGet", 15, slot=slot)
    looking.clock.advance(LOOK_S)
    assert looking.driver.probe_device(0).is_lost
    cards.clear_faults()
    looking.driver.close()
    assert num_samples() == 0


def test_the_fake_refuses_a_sample_that_is_freed_already(cards: FakeDriver, looking: Looking) -> None:
    """The tests above could not see one otherwise."""
    nvml = importlib.import_module("pynvml")
    cards.add_gpu("h100")
    looking.driver.open()
    sample = nvml.nvmlGpmSampleAlloc()
    assert num_samples() == 1
    nvml.nvmlGpmSampleFree(sample)
    with pytest.raises(nvml.NVMLError_InvalidArgument):
        nvml.nvmlGpmSampleFree(sample)
