"""A host whose prober asks a fake driver through the real binding, in a real child."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import pytest

from gpumesh.config import GpuConfig
from gpumesh.daemon.prober import Prober
from gpumesh.health.devices import Probe
from tests.fakes.nvml import build
from tests.fakes.nvml.state import FakeDriver

PATIENCE_S = 30.0
"""Far beyond what a slow machine needs."""


class Host:
    """A host with a fake driver, and what a daemon does with its prober."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.driver = FakeDriver(folder / "state", host=folder.name)
        self.library = folder / "lib"
        monkeypatch.setenv("GPUMESH_FAKE_NVML", str(self.driver.path))
        monkeypatch.setenv("LD_LIBRARY_PATH", str(self.library))
        self.prober = self.make(deadline_s=PATIENCE_S)

    def make(
        self, *, deadline_s: float = 1.0, patience_s: float | None = None, root: Path = Path("/")
    ) -> Prober:
        gpu = GpuConfig(deadline_s=deadline_s, interval_s=0.5)
        self.prober = Prober(gpu, host="a", patience_s=patience_s, root=root)
        return self.prober

    def install(self, missing: Iterable[str] = ()) -> None:
        self.library.symlink_to(build.library(missing=missing))

    async def probe_until(self, is_so: Callable[[Probe], bool]) -> Probe:
        ends_at = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            probe = await self.prober.probe()
            if is_so(probe):
                return probe
            assert asyncio.get_running_loop().time() < ends_at, f"it never came to pass: {probe}"
            await asyncio.sleep(0.02)


async def hosted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    """Make the host of a test and end its prober afterwards: the body of a fixture."""
    made = Host(tmp_path, monkeypatch)
    yield made
    made.driver.clear_faults()
    await made.prober.close()


def is_whole(probe: Probe) -> bool:
    return not probe.error and bool(probe.devices) and len(probe.devices) == probe.num_devices


def temperatures(probe: Probe) -> list[int | None]:
    return [None if state.reading is None else state.reading.temperature_c for state in probe.devices]
