"""MIG instances through the prober: the real binding in a real child."""

from __future__ import annotations

import asyncio

import pytest_asyncio

from gpumesh.health.devices import Probe
from tests.daemon.nvmlhost import Host, hosted, is_whole
from tests.fakes.nvml import build

host = pytest_asyncio.fixture(hosted, name="host")


async def test_mig_instances_are_told_with_what_they_did_since_the_look_before(host: Host) -> None:
    host.install()
    host.driver.add_gpu("h100-mig", load="loaded")

    def activity(probe: Probe) -> list[float | None]:
        reading = probe.devices[0].reading
        return [item.utilization_sm_percent for item in (reading.mig_instances if reading else None) or ()]

    assert activity(await host.prober.probe()) == [None] * 4
    await host.probe_until(lambda probe: activity(probe) == [97.9, 0, 0, 0])


async def test_a_driver_from_before_gpm_tells_instances_without_what_they_do(host: Host) -> None:
    host.install(missing=build.DRIVER_470_LACKS)
    host.driver.add_gpu("h100-mig", load="loaded")
    for _ in range(2):
        probe = await host.prober.probe()
        assert is_whole(probe)
        reading = probe.devices[0].reading
        told = (reading.mig_instances if reading else None) or ()
        assert [item.profile for item in told[:2]] == ["3g.40gb", "2g.20gb"]
        assert {item.utilization_gpu_percent for item in told} == {None}
        await asyncio.sleep(0.11)
