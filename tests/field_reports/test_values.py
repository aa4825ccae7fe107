"""What a card cannot say is absent, what it says is not overdone, and nothing stale is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpumesh.model import Verdict
from tests.fakes.nvml import build
from tests.samples.site import Daemon, Site

MIB = 1 << 20


async def test_gpud_1183_what_an_old_driver_lacks_ends_no_process(daemon: Daemon) -> None:
    """A symbol that driver 470 lacks ended the process at its start."""
    daemon.install(missing=build.DRIVER_470_LACKS)
    daemon.driver.add_gpu("h100", load="loaded")
    report = await daemon.settle()
    child = daemon.prober.child_pid
    assert report.verdict is Verdict.HEALTHY
    assert (await daemon.look()).gpus[0].verdict is Verdict.HEALTHY
    assert daemon.prober.child_pid == child
    reading = daemon.latest.devices[0].reading
    assert reading is not None
    assert reading.clocks_event_reasons == 0, "by the call's older name"
    assert reading.memory_reserved_bytes is None


async def test_nvidia_gpu_exporter_476_a_missing_symbol_costs_its_own_series(daemon: Daemon) -> None:
    """One missing symbol, and no series at all."""
    daemon.install(missing=["nvmlDeviceGetFanSpeed", "nvmlDeviceGetPcieReplayCounter"])
    daemon.driver.add_gpu("rtx-4080-super")
    await daemon.settle()
    names = daemon.metric_names()
    assert {"DCGM_FI_DEV_FAN_SPEED", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"}.isdisjoint(names)
    assert {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED"} <= names
    assert len(names) > 20


def test_gpustat_141_what_the_driver_keeps_is_not_used_memory(site: Site) -> None:
    """An idle card was shown with 308 MB used."""
    slot = site.cards.add_gpu("h200")
    uuid = str(site.cards.get(slot, "uuid"))
    site.look()
    assert site.metric("DCGM_FI_DEV_FB_USED") == {uuid: 0}
    assert site.metric("DCGM_FI_DEV_FB_RESERVED") == {uuid: 614}
    assert site.status()["gpus"][0]["reading"]["memory_used_bytes"] == 0


def test_nvidia_gpu_exporter_68_a_value_that_is_not_there_takes_no_other_with_it(site: Site) -> None:
    """One ``[N/A]`` among the values, and the dashboard was empty."""
    site.cards.add_gpu("rtx-4080-super")
    site.look()
    names = site.metric_names()
    assert not [name for name in names if "ECC" in name or "REMAP" in name or "RETIRED" in name]
    assert len(names) > 20
    reading = site.status()["gpus"][0]["reading"]
    assert not {key for key in reading if key.startswith(("ecc_", "remap", "retired_"))}
    assert None not in reading.values()


def test_dcgm_exporter_216_what_a_mig_instance_does_is_told_and_is_no_zero(site: Site) -> None:
    """``GPU_UTIL`` was 0 for each instance, whatever ran in it."""
    slot = site.cards.add_gpu("h100-mig", load="loaded")
    uuid = str(site.cards.get(slot, "uuid"))
    site.look()
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE" not in site.metric_names(), "one sample is no value yet"
    site.look()
    assert site.metric("DCGM_FI_PROF_GR_ENGINE_ACTIVE", GPU_I_ID="2") == {uuid: 0.996}
    assert site.metric("DCGM_FI_PROF_GR_ENGINE_ACTIVE", GPU_I_ID="9") == {uuid: 0}
    assert "DCGM_FI_DEV_GPU_UTIL" not in site.metric_names()


@pytest.mark.parametrize("trouble", ["lost", "no driver", "hung"])
def test_gpu_monitoring_tools_188_no_series_outlives_its_card(site: Site, trouble: str) -> None:
    """While collection failed the last good values went on being scraped."""
    gone, kept = site.cards.add_gpu("h100"), site.cards.add_gpu("h100")
    uuid = str(site.cards.get(kept, "uuid"))
    site.look()
    assert len(site.metric("DCGM_FI_DEV_GPU_TEMP")) == 2
    if trouble == "lost":
        site.cards.lose(gone)
        site.look()
    elif trouble == "no driver":
        site.cards.fail("nvmlDeviceGetCount_v2", 9)
        site.look()
    else:  # what the cards had answered before the driver stood still is of that look
        site.judge(replace(site.latest, is_hung=True))
    left = {uuid} if trouble == "lost" else set()
    for name in ("GPU_TEMP", "POWER_USAGE", "FB_FREE", "SM_CLOCK"):
        assert set(site.metric(f"DCGM_FI_DEV_{name}")) == left
    assert set(site.metric("gpumesh_gpu_engine_utilization_percent")) == left
