"""A driver that is upgraded while it runs, from the files on disk to the host's state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gpumesh.config import Config, GpuConfig
from gpumesh.daemon.hostprobe import HostProber
from gpumesh.daemon.prober import Prober
from gpumesh.health.engine import Health
from gpumesh.lease.condition import condition
from gpumesh.model import HealthReport, HostState, Verdict
from tests.fakes.nvml import build
from tests.fakes.nvml.state import FakeDriver

OLD, NEW = "535.161.07", "535.183.01"
PATIENCE_S = 30.0


class Host:
    """A host whose driver's module and library are told by files, with a fake library behind the prober."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.driver = FakeDriver(root / "fake", host=root.name)
        self.driver.add_gpu("rtx-4080-super")
        monkeypatch.setenv("GPUMESH_FAKE_NVML", str(self.driver.path))
        monkeypatch.setenv("LD_LIBRARY_PATH", str(build.library()))
        self.prober = Prober(GpuConfig(deadline_s=PATIENCE_S, interval_s=0.5), host="a", root=root)
        self._host_prober = HostProber(root, ask_clock=lambda: True)
        self._health = Health(Config())
        self._now = 100.0
        (root / "sys/module/nvidia").mkdir(parents=True)
        self.load(OLD)
        self.install(OLD)

    def load(self, version: str) -> None:
        """Load the kernel module."""
        (self.root / "sys/module/nvidia/version").write_text(f"{version}\n")

    def install(self, version: str) -> None:
        """Put the library on disk in place of the one before, as apt does."""
        folder = self.root / "usr/lib/x86_64-linux-gnu"
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        (folder / f"libnvidia-ml.so.{version}").write_bytes(b"")
        (folder / "libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{version}")

    async def look(self) -> HealthReport:
        probe, host = await self.prober.probe(), await self._host_prober.probe(self._now)
        self._now += 5.0
        return self._health.handle_probe(probe, host, self._now, 1.8e9 + self._now)

    async def look_until(self, verdict: Verdict) -> HealthReport:
        ends_at = asyncio.get_running_loop().time() + PATIENCE_S
        while (report := await self.look()).verdict is not verdict:
            assert asyncio.get_running_loop().time() < ends_at, report.findings
            await asyncio.sleep(0.02)
        return report


@pytest_asyncio.fixture
async def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    made = Host(tmp_path, monkeypatch)
    yield made
    made.driver.clear_faults()
    await made.prober.close()


async def test_device_plugin_221_an_unattended_upgrade_is_told_at_once_though_nvml_still_answers(
    host: Host,
) -> None:
    assert (await host.look()).verdict is Verdict.HEALTHY
    child = host.prober.child_pid
    host.install(NEW)
    report = await host.look()
    told = next(finding for finding in report.findings if finding.check == "driver-library")
    assert told.reason == f"the driver was upgraded while it ran: kernel module {OLD}, library {NEW}"
    assert "running work is fine" in told.advice
    # No new work, and what runs is left alone: the card is well, and the process that reads it goes on.
    assert condition(report)[0] is HostState.UNHEALTHY
    assert report.gpus[0].verdict is Verdict.HEALTHY
    assert host.prober.child_pid == child


async def test_shine_cluster_30_after_the_modules_are_reloaded_a_fresh_child_finds_it_well(
    host: Host,
) -> None:
    await host.look()
    child = host.prober.child_pid
    host.install(NEW)
    await host.look()
    # The new module refuses the library that the old child has loaded.
    host.load(NEW)
    host.driver.fail_init(18)
    host.driver.fail("nvmlDeviceGetCount_v2", 18)
    refused = await host.look()
    assert refused.verdict is Verdict.UNHEALTHY
    host.driver.clear_faults()
    report = await host.look_until(Verdict.HEALTHY)
    assert report.gpus[0].verdict is Verdict.HEALTHY
    assert host.prober.child_pid not in {None, child}


async def test_a_module_whose_library_is_among_several_is_no_mismatch(host: Host) -> None:
    folder = host.root / "usr/lib64"
    folder.mkdir()
    (folder / f"libnvidia-ml.so.{NEW}").write_bytes(b"")
    (folder / "libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{NEW}")
    assert (await host.look()).verdict is Verdict.HEALTHY
