"""PCI devices as sysfs lays them out."""

from __future__ import annotations

from pathlib import Path

from gpumesh.health.pcieport import kernel_form


def plug_in(root: Path, pci_bus_id: str, *, speed: str, width: str) -> None:
    """Lay out a card below a port that can do so much."""
    port = root / "sys/devices/pci0000:00/0000:00:01.0"
    card = port / kernel_form(pci_bus_id)
    card.mkdir(parents=True, exist_ok=True)
    (port / "max_link_speed").write_text(f"{speed}\n")
    (port / "max_link_width").write_text(f"{width}\n")
    devices = root / "sys/bus/pci/devices"
    devices.mkdir(parents=True, exist_ok=True)
    (devices / card.name).symlink_to(card)


def put_on_bus(root: Path, address: str, status: str) -> None:
    """Lay out sysfs' files of an NVIDIA card whose power status is this."""
    folder = root / "sys/bus/pci/devices" / address
    (folder / "power").mkdir(parents=True, exist_ok=True)
    (folder / "vendor").write_text("0x10de\n")
    (folder / "class").write_text("0x030000\n")
    (folder / "power/runtime_status").write_text(f"{status}\n")
