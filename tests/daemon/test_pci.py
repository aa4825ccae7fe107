from __future__ import annotations

from pathlib import Path

import pytest

from gpumesh.daemon.pci import PciBus, driver_form


def plug(
    root: Path, address: str, *, vendor: str = "0x10de", kind: str = "0x030000", driver: str = "nvidia"
) -> None:
    device = root / "sys/bus/pci/devices" / address
    device.mkdir(parents=True)
    (device / "vendor").write_text(vendor + "\n")
    (device / "class").write_text(kind + "\n")
    (device / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")


def test_only_nvidia_display_controllers_are_listed(tmp_path: Path) -> None:
    plug(tmp_path, "0000:01:00.0")
    plug(tmp_path, "0000:01:00.1", kind="0x040300")
    plug(tmp_path, "0000:0c:00.0", kind="0x030200")
    plug(tmp_path, "0000:00:02.0", vendor="0x8086")
    assert PciBus(tmp_path).gpu_addresses() == ("00000000:01:00.0", "00000000:0C:00.0")


def test_a_card_given_to_a_virtual_machine_is_not_the_drivers(tmp_path: Path) -> None:
    plug(tmp_path, "0000:01:00.0")
    plug(tmp_path, "0000:02:00.0", driver="vfio-pci")
    assert PciBus(tmp_path).gpu_addresses() == ("00000000:01:00.0",)


def test_a_card_that_is_plugged_in_or_taken_out_is_noticed(tmp_path: Path) -> None:
    plug(tmp_path, "0000:01:00.0")
    bus = PciBus(tmp_path)
    assert len(bus.gpu_addresses() or ()) == 1
    plug(tmp_path, "0000:02:00.0")
    assert len(bus.gpu_addresses() or ()) == 2
    (tmp_path / "sys/bus/pci/devices").rename(tmp_path / "gone")
    assert bus.gpu_addresses() is None


def test_an_unreadable_bus_is_unknown_and_an_empty_one_is_empty(tmp_path: Path) -> None:
    assert PciBus(tmp_path).gpu_addresses() is None
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    assert PciBus(tmp_path).gpu_addresses() == ()


def test_an_entry_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    plug(tmp_path, "0000:01:00.0")
    (tmp_path / "sys/bus/pci/devices/0000:02:00.0").mkdir()
    plug(tmp_path, "0000:03:00.0", vendor="no number")
    assert PciBus(tmp_path).gpu_addresses() == ("00000000:01:00.0",)


@pytest.mark.parametrize(
    ("address", "form"), [("0000:0c:00.0", "00000000:0C:00.0"), ("10000:01:00.0", "00010000:01:00.0")]
)
def test_addresses_take_the_drivers_form(address: str, form: str) -> None:
    assert driver_form(address) == form
