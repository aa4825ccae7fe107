"""beszel#1522: a card that sleeps is not woken, and one that could is given the time to."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpumesh.daemon.rest import NAP_S, Rest
from gpumesh.health.devices import DeviceState, Process, Reading
from tests.health.builders import geforce

ADDRESS = "00000000:01:00.0"


class Laptop:
    """The files of a card that can sleep, and a clock."""

    def __init__(self, folder: Path, status: str = "Enabled (fine-grained)") -> None:
        self.power = folder / "sys/bus/pci/devices/0000:01:00.0/power"
        self.power.mkdir(parents=True)
        driver = folder / "proc/driver/nvidia/gpus/0000:01:00.0"
        driver.mkdir(parents=True)
        (driver / "power").write_text(
            f"Runtime D3 status:          {status}\nVideo Memory:               Off\n"
        )
        self.now = 1000.0
        self.rest = Rest(folder, clock=lambda: self.now)
        self.be("active")

    def be(self, status: str) -> None:
        (self.power / "runtime_status").write_text(f"{status}\n")


def idle(**changes: object) -> DeviceState:
    return geforce(0, **changes)


def test_a_card_that_sleeps_is_left_alone_until_something_wakes_it(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path)
    assert not laptop.rest.is_due(ADDRESS)
    laptop.be("suspended")
    assert laptop.rest.is_due(ADDRESS)
    laptop.be("active")
    assert not laptop.rest.is_due(ADDRESS)


def test_an_idle_card_that_can_sleep_is_given_the_time_to(tmp_path: Path) -> None:
    laptop = Laptop(tmp_path)
    laptop.rest.note(idle())
    laptop.now += NAP_S - 1
    assert laptop.rest.is_due(ADDRESS)
    laptop.now += 1
    assert not laptop.rest.is_due(ADDRESS)


@pytest.mark.parametrize(
    "state",
    [
        idle(utilization_gpu_percent=3),
        idle(processes=(Process(7, "compute", None),)),
        DeviceState(0, idle().info, None, "GPU is lost (NVML 15)", 15, is_lost=True),
        DeviceState(0, None, Reading()),
    ],
    ids=["busy", "computing", "lost", "nameless"],
)
def test_a_card_at_work_or_in_trouble_is_looked_at_each_time(tmp_path: Path, state: DeviceState) -> None:
    laptop = Laptop(tmp_path)
    laptop.rest.note(idle())
    laptop.rest.note(state)
    assert laptop.rest.is_due(ADDRESS) is (state.info is None)


@pytest.mark.parametrize("status", ["Disabled by default", "Not supported", "?"])
def test_a_card_that_cannot_sleep_is_looked_at_each_time(tmp_path: Path, status: str) -> None:
    laptop = Laptop(tmp_path, status)
    laptop.rest.note(idle())
    assert not laptop.rest.is_due(ADDRESS)


def test_a_host_without_such_files_is_looked_at(tmp_path: Path) -> None:
    rest = Rest(tmp_path)
    rest.note(idle())
    assert not rest.is_due(ADDRESS)
