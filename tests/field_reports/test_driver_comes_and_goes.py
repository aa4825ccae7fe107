"""Drivers that come late, change underneath, are hidden by a sandbox, or are to be let go of."""

from __future__ import annotations

import configparser
import os
import sys
import types
from pathlib import Path

import pytest

from gpumesh.model import HostState, Verdict
from tests.requirements import lacks
from tests.samples.site import Daemon, Site, codes, told

MISMATCH, NO_PERMISSION, LIBRARY_NOT_FOUND = 18, 4, 12
UNIT = Path(__file__).parents[2] / "systemd/gpumesh.service"


def is_library_in(pid: int) -> bool:
    """Whether the process has NVML's library loaded."""
    return b"libnvidia-ml" in Path(f"/proc/{pid}/maps").read_bytes()


def upgrade_underneath(site: Site, root: Path) -> None:
    """Have the library and the loaded module differ from now on, as after an unattended upgrade."""
    (root / "proc/driver/nvidia").mkdir(parents=True)
    (root / "proc/driver/nvidia/version").write_text("NVRM version: Kernel Module  535.161.07  Sat Feb 17\n")
    (root / "proc/self").mkdir()
    (root / "proc/self/maps").write_text("7f00-7f01 r--p 0 08:01 42  /usr/lib/libnvidia-ml.so.535.183.01\n")
    site.cards.fail("nvmlDeviceGetCount_v2", MISMATCH)
    site.cards.fail_init(MISMATCH)


def test_device_plugin_221_a_library_unlike_the_module_is_told_with_both_versions(
    site: Site, tmp_path: Path
) -> None:
    """After an unattended upgrade the node stayed ready, and every new container failed."""
    site.cards.add_gpu("rtx-4080-super")
    site.look()
    assert site.state() is HostState.READY
    upgrade_underneath(site, tmp_path)
    finding = told(site.look(), "driver-library")
    assert finding.evidence["code"] == "mismatch"
    assert "kernel module 535.161.07, library 535.183.01" in finding.reason
    assert site.state() is HostState.UNHEALTHY


def test_shine_cluster_30_what_runs_through_an_upgrade_is_left_alone(site: Site, tmp_path: Path) -> None:
    """Running work goes on under the old library; to kill or to reset would be the damage."""
    slot = site.cards.add_gpu("rtx-4080-super", load="loaded")
    site.look()
    upgrade_underneath(site, tmp_path)
    finding = told(site.look(), "driver-library")
    assert "running work is fine" in finding.advice
    assert site.gpu(slot).verdict is Verdict.UNKNOWN, "not known, and not lost"
    assert site.gpu(slot).findings == ()
    site.cards.clear_faults()
    site.look_for(30)
    assert site.state() is HostState.READY, "well by itself once both are of one version"


async def test_nvitop_222_closing_waits_until_the_driver_is_let_go_of(daemon: Daemon) -> None:
    """Shutdown raced the thread that was still asking."""
    daemon.install()
    daemon.driver.add_gpu("rtx-4080-super")
    await daemon.settle()
    child = daemon.prober.child_pid
    assert child is not None
    daemon.driver.delay("nvmlShutdown", 0.3)
    await daemon.prober.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


async def test_nvidia_gpu_exporter_65_a_driver_that_comes_later_is_found(daemon: Daemon) -> None:
    """Started before the driver, it gave up."""
    report = await daemon.look()
    if daemon.latest.error_code != LIBRARY_NOT_FOUND:
        lacks("this machine has a libnvidia-ml.so.1 of its own")
    assert codes(report) == ["driver/no-library"]
    daemon.install()
    for _ in range(3):
        assert "driver/not-loaded" in codes(await daemon.look())
    daemon.driver.add_gpu("rtx-4080-super")
    await daemon.look_until(lambda report: report.verdict is Verdict.HEALTHY)
    assert daemon.state() is HostState.READY


async def test_dcgm_exporter_716_a_driver_that_is_let_go_of_has_no_user_left(daemon: Daemon) -> None:
    """Open handles kept the driver from being unbound and upgraded."""
    daemon.install()
    daemon.driver.add_gpu("h100")
    await daemon.settle()
    child = daemon.prober.child_pid
    assert child is not None
    assert is_library_in(child)
    assert await daemon.prober.let_go()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    await daemon.settle()
    assert daemon.prober.child_pid not in {None, child}


def test_fah_client_bastet_315_a_driver_that_the_sandbox_hides_is_told_as_such(site: Site) -> None:
    """A hardened unit saw no card, and said that there was none."""
    site.cards.add_gpu("rtx-4080-super")
    site.cards.fail_init(NO_PERMISSION)
    finding = told(site.look(), "driver")
    assert finding.evidence["code"] == "no-permission"
    assert "DeviceAllow" in finding.advice
    assert site.report.verdict is Verdict.UNHEALTHY


def test_nixpkgs_331069_the_shipped_unit_lets_the_cards_through(site: Site) -> None:
    """PrivateDevices in the unit, and the service found no GPU."""
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # keys keep their case
    unit.read(UNIT)
    assert "PrivateDevices" not in unit["Service"]
    allowed = {line.split("=")[1] for line in UNIT.read_text().splitlines() if line.startswith("DeviceAllow")}
    assert {"char-195 rw", "char-nvidia-uvm rw", "char-nvidia-caps rw"} <= allowed
    # What the unit lets through is what a look needs: one that may use it finds the card.
    site.cards.add_gpu("rtx-4080-super")
    site.look()
    assert site.state() is HostState.READY


def test_vllm_7649_the_stray_package_in_the_bindings_place_is_named(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old PyPI package ``pynvml`` answered to the import of NVIDIA's binding."""
    stray = types.ModuleType("pynvml")
    stray.__file__ = "/usr/lib/python3/dist-packages/pynvml/__init__.py"
    monkeypatch.setitem(sys.modules, "pynvml", stray)
    site.cards.add_gpu("rtx-4080-super")
    report = site.look()
    assert "uninstall pynvml" in told(report, "driver").reason
    assert codes(report) == ["driver/error"]
