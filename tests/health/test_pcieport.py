from __future__ import annotations

from pathlib import Path

import pytest

from gpumesh.health.pcieport import PciePort, kernel_form, port_of
from tests.samples.pci import plug_in

ADDRESS = "00000000:0C:00.0"


@pytest.mark.parametrize(
    ("speed", "generation"),
    [
        ("2.5 GT/s PCIe", 1),
        ("5.0 GT/s PCIe", 2),
        ("8.0 GT/s PCIe", 3),
        ("8 GT/s", 3),
        ("16.0 GT/s PCIe", 4),
        ("32.0 GT/s PCIe", 5),
        ("64.0 GT/s PCIe", 6),
        ("Unknown", None),
        ("9.9 GT/s", None),
        ("", None),
    ],
)
def test_a_ports_speed_is_told_as_a_generation(tmp_path: Path, speed: str, generation: int | None) -> None:
    plug_in(tmp_path, ADDRESS, speed=speed, width="16")
    assert port_of(ADDRESS, tmp_path) == PciePort(generation, 16)


@pytest.mark.parametrize("width", ["", "x16", "-1", "²"])
def test_a_width_that_is_no_number_is_absent(tmp_path: Path, width: str) -> None:
    plug_in(tmp_path, ADDRESS, speed="8.0 GT/s PCIe", width=width)
    assert port_of(ADDRESS, tmp_path) == PciePort(3, None)


def test_a_card_without_a_port_above_it_has_none(tmp_path: Path) -> None:
    assert port_of(ADDRESS, tmp_path) == PciePort()
    alone = tmp_path / "sys/devices/pci0000:00" / kernel_form(ADDRESS)
    alone.mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices" / alone.name).symlink_to(alone)
    assert port_of(ADDRESS, tmp_path) == PciePort()


@pytest.mark.parametrize("address", ["", "../../etc", "0000:00:00.0\0"])
def test_an_address_that_is_none_has_none(tmp_path: Path, address: str) -> None:
    assert port_of(address, tmp_path) == PciePort()


def test_an_address_is_written_as_the_kernel_does() -> None:
    assert kernel_form("00000000:0C:00.0") == "0000:0c:00.0"
    assert kernel_form("00010000:0C:00.0") == "00010000:0c:00.0"
