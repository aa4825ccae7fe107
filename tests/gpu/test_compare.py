"""The comparison that a machine with a GPU makes, tried on the captures where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.captures.smi import Capture, SmiGpu, captures, parse
from tests.captures.values import device_values, process_values, reading_values
from tests.gpu.compare import ROOM, differences, is_between, mig_differences, process_differences

LOADS = ("idle", "load")


@pytest.fixture(params=LOADS)
def gpu(request: pytest.FixtureRequest, capture: Capture) -> SmiGpu:
    (found,) = capture.query(request.param).gpus
    return found


@pytest.fixture(params=captures(), ids=lambda capture: capture.name.split("__")[1])
def capture(request: pytest.FixtureRequest) -> Capture:
    found: Capture = request.param
    return found


def test_what_nvidia_smi_itself_says_differs_in_nothing(gpu: SmiGpu) -> None:
    assert differences(device_values(gpu), reading_values(gpu), gpu, gpu) == []


def test_each_value_that_is_missing_or_beyond_its_room_is_told(gpu: SmiGpu) -> None:
    device, reading = device_values(gpu), reading_values(gpu)
    for values in (device, reading):
        for name, value in list(values.items()):
            del values[name]
            assert len(differences(device, reading, gpu, gpu)) == 1, name
            values[name] = f"{value}?" if isinstance(value, str) else value + ROOM.get(name, 0) + 1
            assert len(differences(device, reading, gpu, gpu)) == 1, name
            values[name] = value
    assert differences(device, reading, gpu, gpu) == []


def test_a_value_that_nvidia_smi_says_is_not_available_may_not_be_shown(gpu: SmiGpu) -> None:
    reading = reading_values(gpu)
    absent = next(name for name in ("fan_percent", "ecc_enabled") if name not in reading)
    assert differences(device_values(gpu), {**reading, absent: 0}, gpu, gpu) == [
        f"{absent}: shown 0, nvidia-smi None and None"
    ]


def test_a_value_that_this_nvidia_smi_does_not_print_is_not_judged(gpu: SmiGpu) -> None:
    old = SmiGpu({route: value for route, value in gpu.lines.items() if route[0] != "GPU Recovery Action"})
    assert differences(device_values(gpu), reading_values(gpu), old, old) == []
    assert differences(device_values(gpu), reading_values(gpu), gpu, gpu) == []


@pytest.mark.parametrize(
    ("name", "shown", "before", "after", "is_so"),
    [
        ("temperature_c", 44, 41, 43, True),
        ("temperature_c", 47, 41, 43, False),
        ("pcie_replays", 5, 4, 6, True),
        ("pcie_replays", 7, 4, 6, False),
        ("power_limit_w", 320.004, 320.0, 320.0, True),
        ("power_limit_w", 321.0, 320.0, 320.0, False),
        ("clocks_event_reasons", 2, 1, 4, False),
        ("clocks_event_reasons", 4, 1, 4, True),
        ("fan_percent", None, None, None, True),
        ("fan_percent", 0, None, None, False),
    ],
)
def test_what_moves_lies_between_and_what_stands_is_equal(
    name: str, shown: Any, before: Any, after: Any, is_so: bool
) -> None:
    assert is_between(name, shown, before, after) is is_so


def test_processes_that_stayed_must_be_shown_and_no_others(capture: Capture) -> None:
    idle, load = ([process_values(item) for item in capture.query(name).gpus[0].processes] for name in LOADS)
    assert process_differences(idle, idle, load) == []
    assert process_differences(load, idle, load) == []
    assert len(process_differences([], load, load)) == len(load)
    assert process_differences([*load, {**load[0], "pid": 1}], load, load) == [
        f"made up: {(1, load[0]['kind'], None)}"
    ]


def test_instances_are_compared_by_number_and_size(tmp_path: Path) -> None:
    lines = (
        *("GPU 00000000:01:00.0", "    MIG Device", "        Index : 0"),
        *("        GPU Instance ID : 2", "        Compute Instance ID : 0"),
        *("        Shared FB Memory Usage", "            Total : 40448 MiB"),
    )
    (gpu,) = parse("\n".join(lines)).gpus
    shown = {"gpu_instance": 2, "compute_instance": 0, "memory_total_bytes": 40448 << 20}
    assert mig_differences([shown], gpu) == []
    assert len(mig_differences([], gpu)) == 1
    assert len(mig_differences([{**shown, "gpu_instance": 3}], gpu)) == 2
