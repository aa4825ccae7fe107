from __future__ import annotations

import pytest

from tests.captures.smi import Capture, captures, parse
from tests.captures.values import device_values, number, process_values, reading_values

CARVED = """\
==============NVSMI LOG==============

Driver Version                            : 590.48.01

Attached GPUs                             : 2
GPU 00000000:00:09.0
    Product Name                          : NVIDIA H100 80GB HBM3
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 2
        Device Attributes
            Shared
                Multiprocessor count      : 60
        Shared FB Memory Usage
            Total                         : 40448 MiB
    MIG Device
        Index                             : 1
        GPU Instance ID                   : 9
        Shared FB Memory Usage
            Total                         : 9984 MiB
    Remapped Rows                         : N/A
    Fan Speed                             : [Unknown Error]
    Processes
        GPU instance ID                   : 2
        Compute instance ID               : 0
        Process ID                        : 21180
            Type                          : M+C
            Name                          : /usr/bin/python3 train.py --port 1 : 2
            Used GPU Memory               : N/A
GPU 00000000:0A:00.0
    Product Name                          : Tesla T4
    Processes                             : None
"""


def test_lines_stand_under_their_sections_and_cards() -> None:
    smi = parse(CARVED)
    assert smi.get("Driver Version") == "590.48.01"
    first, second = smi.gpus
    assert (first.address, second.address) == ("00000000:00:09.0", "00000000:0A:00.0")
    assert (first.get("MIG Mode", "Current"), second.get("MIG Mode", "Current")) == ("Enabled", None)
    assert second.get("Product Name") == "Tesla T4"
    assert second.processes == []


def test_things_listed_one_after_the_other_are_kept_apart() -> None:
    first = parse(CARVED).gpus[0]
    assert [item.get("GPU Instance ID") for item in first.mig_devices] == ["2", "9"]
    assert first.mig_devices[0].get("Device Attributes", "Shared", "Multiprocessor count") == "60"
    assert [item.get("Shared FB Memory Usage", "Total") for item in first.mig_devices] == [
        "40448 MiB",
        "9984 MiB",
    ]
    assert [process_values(item) for item in first.processes] == [
        {
            "pid": 21180,
            "kind": "compute",
            "name": "python3",
            "memory_bytes": None,
            "gpu_instance": 2,
            "compute_instance": 0,
        }
    ]


def test_what_is_not_available_is_absent_and_a_whole_section_may_be() -> None:
    first = parse(CARVED).gpus[0]
    assert first.get("Fan Speed") is None
    assert first.has("Remapped Rows", "Pending")
    assert not first.has("Temperature", "GPU Current Temp")
    assert reading_values(first) == {"mig_enabled": True, "mig_enabled_pending": True}


@pytest.mark.parametrize(
    ("text", "value"),
    [("345 MHz", 345), ("16x", 16), ("P8", 8), ("38.89 W", 38.89), ("-2 C", -2), ("640 bank(s)", 640)],
)
def test_a_number_is_read_without_its_unit(text: str, value: float) -> None:
    assert number(text) == value


@pytest.mark.parametrize("load", ["idle", "load"])
@pytest.mark.parametrize("capture", captures(), ids=lambda capture: capture.name)
def test_each_capture_is_read_in_full(capture: Capture, load: str) -> None:
    """Of each card so many values: a line whose name is not known any more would be missed here."""
    (gpu,) = capture.query(load).gpus
    is_geforce = "geforce" in capture.name
    assert len(device_values(gpu)) == (15 if is_geforce else 13)
    assert len(reading_values(gpu)) == (37 if is_geforce else 66)


def test_the_four_captures_are_here() -> None:
    assert [capture.name.split("__")[1] for capture in captures()] == [
        *("nvidia-geforce-rtx-2080-super", "nvidia-geforce-rtx-4080-super"),
        *("nvidia-h100-80gb-hbm3", "nvidia-h200"),
    ]
