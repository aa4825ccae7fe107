"""The test for machines with a card, run where there is none.

A stand-in for nvidia-smi prints a capture, and the fake library has that card. The test passes where both
agree and fails where they do not, so it can be trusted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.captures.smi import Capture, captures
from tests.fakes.nvml import build
from tests.fakes.nvml.state import FakeDriver

ROOT = Path(__file__).parents[2]
MASKED_UUID = "GPU-00000000-0000-0000-0000-000000000000"
STAND_IN = """\
#!/bin/sh
case "$1" in
-q) exec cat "{folder}/query" ;;
-L) echo "GPU 0: {name} (UUID: {uuid})" ;;
--version) exec cat "{folder}/version" ;;
nvlink) exec cat "{folder}/nvlink" ;;
--query-gpu=*) echo "{address}, 0, {name}, {uuid}, {serial}, {capability}" ;;
*) exit 9 ;;
esac
"""
PROFILES = {
    "nvidia-h100-80gb-hbm3": ("h100", "9.0"),
    "nvidia-geforce-rtx-4080-super": ("rtx-4080-super", "8.9"),
}


def lay_out(folder: Path, capture: Capture, driver: FakeDriver) -> None:
    """Put nvidia-smi's stand-in and the card into this folder."""
    profile, capability = PROFILES[capture.name.split("__")[1]]
    (gpu,) = capture.query("load").gpus
    slot = driver.add_gpu(profile, load="loaded", uuid=MASKED_UUID, pci_bus_id=gpu.address)
    serial = gpu.get("Serial Number")
    if serial is not None:
        driver.set(slot, "serial", serial)
    (folder / "query").write_text(capture.sections["load :: query (-q)"])
    (folder / "version").write_text(capture.sections["capabilities :: version"])
    (folder / "nvlink").write_text(capture.sections["capabilities :: nvlink -s"])
    script = folder / "nvidia-smi"
    script.write_text(
        STAND_IN.format(
            folder=folder,
            name=gpu.get("Product Name"),
            uuid=MASKED_UUID,
            address=gpu.address,
            serial=serial or "[N/A]",
            capability=capability,
        )
    )
    script.chmod(0o755)


def run(folder: Path, driver: FakeDriver) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(build.library()),
        "GPUMESH_FAKE_NVML": str(driver.path),
    }
    arguments = ["-m", "gpu", "-q", "-p", "no:cacheprovider", "tests/gpu/test_real_gpu.py"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", PROFILES)
def test_a_machine_whose_card_agrees_with_nvidia_smi_passes_and_another_fails(
    tmp_path: Path, name: str
) -> None:
    capture = next(item for item in captures() if item.name.split("__")[1] == name)
    driver = FakeDriver(tmp_path / "state")
    lay_out(tmp_path, capture, driver)
    done = run(tmp_path, driver)
    assert "5 passed" in done.stdout, done.stdout
    driver.set(0, "pcie_width", 8)
    driver.set(0, "power_limit_mw", 123_000)
    done = run(tmp_path, driver)
    assert "1 failed, 4 passed" in done.stdout, done.stdout
    assert "gpu 0: pcie_width: shown 8, nvidia-smi 16 and 16" in done.stdout
    assert "gpu 0: power_limit_w: shown 123.0, nvidia-smi" in done.stdout
