"""Drivers that do not answer: told in time, never doubled, never killed first."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from gpumesh.model import HostState, Verdict
from tests.samples.site import Daemon, codes, told


def is_hung(daemon: Daemon) -> bool:
    return daemon.latest.is_hung


def children() -> list[int]:
    """Process ids of the probers that this process has started and that are still there."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text().rpartition(")")[2].split()
            words = (path / "cmdline").read_bytes()
        except OSError:
            continue
        if int(stat[1]) == os.getpid() and stat[0] != "Z" and b"prober_child" in words:
            found.append(int(path.name))
    return found


async def test_open_gpu_kernel_modules_446_a_call_that_blocks_is_a_finding_with_its_name(
    daemon: Daemon,
) -> None:
    """Xid 119: each call blocked for 45 s, and with it whoever had asked."""
    daemon.install()
    for _ in range(3):
        daemon.driver.add_gpu("h100")
    await daemon.settle()
    daemon.driver.hang("nvmlDeviceGetPowerUsage", slot=1)
    report = await daemon.look_until(lambda _: is_hung(daemon))
    finding = told(report, "driver")
    assert finding.evidence["code"] == "hung"
    assert "nvmlDeviceGetPowerUsage on gpu 1" in finding.reason
    assert [state.index for state in daemon.latest.devices] == [0], "the card before it has answered"
    daemon.driver.clear_faults()
    assert codes(await daemon.look_until(lambda report: report.verdict is Verdict.HEALTHY)) == []


async def test_go_nvml_152_initialisation_that_hangs_after_hours_is_under_the_deadline(
    daemon: Daemon,
) -> None:
    """Initialisation blocked for ever on a host where it had worked for hours."""
    daemon.install()
    daemon.driver.add_gpu("rtx-4080-super")
    await daemon.settle()
    assert await daemon.prober.let_go()
    daemon.driver.hang_init()
    report = await daemon.look_until(lambda _: is_hung(daemon))
    assert "in call nvmlInit" in told(report, "driver").reason
    assert daemon.latest.hung_for_s < 30.0, "told within the deadline of a second, and not once it is over"
    assert [gpu.verdict for gpu in report.gpus] == [Verdict.UNKNOWN], "not known, and not lost"


async def test_nvsentinel_1576_no_look_at_a_blocked_driver_leaves_the_host_ready(daemon: Daemon) -> None:
    """The probe was blocked, and the host stayed ready."""
    daemon.install()
    daemon.driver.add_gpu("h100")
    await daemon.settle()
    assert daemon.state() is HostState.READY
    daemon.driver.hang("*")
    for _ in range(4):
        await daemon.look()
        assert daemon.state() is HostState.UNHEALTHY


async def test_nvsentinel_1748_each_start_tells_the_hang_and_none_is_caused_by_it(daemon: Daemon) -> None:
    """The monitor was restarted 49 times by its watchdog, and the fault was never told."""
    daemon.install()
    daemon.driver.add_gpu("h100")
    daemon.driver.hang("nvmlDeviceGetTemperature")
    for _ in range(2):
        assert daemon.state() is HostState.UNHEALTHY, "before the first look nothing is known, so not ready"
        num_ticks = 0
        look = asyncio.create_task(daemon.look_until(lambda _: is_hung(daemon)))
        while not look.done():
            await asyncio.sleep(0.02)
            num_ticks += 1
        assert num_ticks > 5, "whoever watches the daemon hears of it all the while"
        assert "nvmlDeviceGetTemperature" in told(look.result(), "driver").reason
        await daemon.restart()
        assert "nvmlDeviceGetTemperature" in told(daemon.report, "driver").reason, "before its first look"
    daemon.driver.clear_faults()
    await daemon.look_until(lambda report: report.verdict is Verdict.HEALTHY)
    await daemon.restart()
    assert daemon.report.findings == (), "a look has succeeded"


async def test_gpud_117_behind_a_stuck_look_no_second_one_is_started(daemon: Daemon) -> None:
    """One more process in state D with each look."""
    daemon.install()
    daemon.make(patience_s=0.5)
    daemon.driver.add_gpu("rtx-4080-super")
    await daemon.settle()
    stuck = children()
    assert stuck == [daemon.prober.child_pid]
    daemon.driver.hang("nvmlDeviceGetTemperature", hard=True)
    await daemon.look_until(lambda _: daemon.latest.hung_for_s > 1.5)
    for _ in range(5):
        await daemon.look()
        assert children() == stuck, "not even after it was asked to end"


async def test_dcgm_exporter_84_a_stuck_process_is_asked_to_end_and_not_killed(daemon: Daemon) -> None:
    """SIGKILL inside a call wedged an A100 until the next reboot."""
    daemon.install()
    daemon.make(patience_s=0.5)
    daemon.driver.add_gpu("h100")
    await daemon.settle()
    stuck = daemon.prober.child_pid
    daemon.driver.hang("nvmlDeviceGetPowerUsage", slot=0)
    await daemon.look_until(lambda _: "SIG" in daemon.latest.error)
    assert f"{stuck}" not in {str(pid) for pid in children()}
    assert "SIGTERM" in daemon.latest.error
    assert "SIGKILL" not in daemon.latest.error
