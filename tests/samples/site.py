"""Hosts as the daemon sees them, from the driver's library to what people are shown.

:class:`Site` looks in this process and in a time of its own, so that minutes pass at once;
:class:`Daemon` looks through the prober's child process, where hangs, ends and starts of processes are what a
report is about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpumesh.config import Config, GpuConfig
from gpumesh.daemon.clock import boot_time
from gpumesh.daemon.hangbook import HangBook
from gpumesh.daemon.prober import Prober
from gpumesh.daemon.statedir import StateDirectory
from gpumesh.errors import DriverError
from gpumesh.health.devices import DriverInfo, Probe, Reading, XidEvent
from gpumesh.health.engine import Health
from gpumesh.health.nvml import NvmlDriver
from gpumesh.health.nvml_gpm import Moment
from gpumesh.health.xid_lines import KernelLine
from gpumesh.lease.condition import condition
from gpumesh.model import Finding, Gpu, HealthReport, HostState, View
from gpumesh.status.documents import status_document
from gpumesh.status.metrics import mesh_exposition
from tests.fakes.nvml import build
from tests.fakes.nvml.state import FakeDriver
from tests.health.builders import HOST, UNIX
from tests.samples.fleet import SELF_ID
from tests.samples.fleet import host as host_view

PATIENCE_S = 30.0
"""Far beyond what a slow machine needs."""


class Shown:
    """What is made of looks: the report, the status document, the metrics."""

    def __init__(self, config: Config) -> None:
        self.health = Health(config)
        self.host = HOST
        self.now = 1000.0
        self.latest = Probe(driver=None)

    def judge(self, probe: Probe, lines: Iterable[KernelLine] = ()) -> HealthReport:
        """Have one look judged, with these lines new in the kernel's log."""
        host = replace(self.host, kernel_lines=tuple(lines))
        report = self.health.handle_probe(probe, host, self.now, UNIX + self.now)
        self.latest = replace(probe, xids=self.health.xids())
        return report

    @property
    def report(self) -> HealthReport:
        return self.health.report

    def state(self) -> HostState:
        """What this health makes of the host."""
        return condition(self.report)[0]

    def view(self) -> View:
        me = host_view(1, self.state(), health=self.report)
        return View(SELF_ID, self.now, "cafe", (me,))

    def status(self) -> dict[str, Any]:
        """What ``/v1/status`` answers."""
        return status_document(self.view(), self.latest)

    def metric(self, name: str, **labels: str) -> dict[str, float]:
        """Values of a family in ``/metrics`` by the card's UUID, of the series with these labels."""
        text = mesh_exposition(self.view(), self.latest, {})
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return {
            sample.labels["UUID"]: sample.value
            for sample in samples
            if sample.name == name and labels.items() <= sample.labels.items()
        }

    def metric_names(self) -> set[str]:
        """Names of all families of cards that have a series."""
        text = mesh_exposition(self.view(), self.latest, {})
        families = text_string_to_metric_families(text)
        return {family.name for family in families if family.samples and "DCGM" in family.name}


class Site(Shown):
    """A host whose driver is the fake library, looked at every five seconds of its own time."""

    def __init__(self, cards: FakeDriver, root: Path, config: Config | None = None) -> None:
        super().__init__(config or Config())
        self.cards = cards
        self.calls: list[str] = []
        self.cost_s: dict[str, float] = {}
        """How long the driver takes over a call, in the site's time."""
        self.bus: tuple[str, ...] | None = None
        """NVIDIA's cards on the PCI bus, where they are not those that the driver has."""
        self._driver = NvmlDriver(root=root, announce=self._handle_call, clock=self._moment)
        self._info: DriverInfo | None = None

    def _moment(self) -> Moment:
        return Moment(self.now, self.now)

    def _handle_call(self, call: str) -> None:
        self.calls.append(call)
        self.now += self.cost_s.get(call.split(maxsplit=1)[0], 0.0)

    def look(self, *lines: str) -> HealthReport:
        """Look once, with these lines new in the kernel's log; five seconds pass."""
        report = self.judge(self._probe(), [KernelLine(self.now, text) for text in lines])
        self.now += 5.0
        return report

    def look_for(self, seconds: float) -> HealthReport:
        """Look until so much time has passed."""
        ends_at = self.now + seconds
        report = self.look()
        while self.now <= ends_at:
            report = self.look()
        return report

    def _probe(self) -> Probe:
        began_at = self.now
        try:
            self._info = self._info or self._driver.open()
            states = [self._driver.probe_device(index) for index in range(self._driver.count())]
        except DriverError as error:
            self.close()
            return Probe(driver=None, error=str(error), error_code=error.code, pci_addresses=self.bus)
        addresses = tuple(state.info.pci_bus_id if state.info else "" for state in states)
        return Probe(
            driver=self._info,
            devices=tuple(states),
            num_devices=len(states),
            duration_s=self.now - began_at,
            pci_addresses=addresses if self.bus is None and all(addresses) else self.bus,
            xid_events=tuple(
                XidEvent(address, xid)
                for state, address in zip(states, addresses, strict=True)
                for xid in state.xids
            ),
        )

    def close(self) -> None:
        """Let go of the driver; the next look opens it anew."""
        self._driver.close()
        self._info = None

    def gpu(self, slot: int) -> Gpu:
        """What the report says of the card in that slot."""
        uuid = self.cards.get(slot, "uuid")
        return next(gpu for gpu in self.report.gpus if gpu.uuid == uuid)

    def reading(self, slot: int) -> Reading:
        """The last reading of the card in that slot."""
        uuid = self.cards.get(slot, "uuid")
        state = next(state for state in self.latest.devices if state.info and state.info.uuid == uuid)
        assert state.reading is not None, state.error
        return state.reading


class Daemon(Shown):
    """A host looked at through the prober's child, as the daemon does it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(Config())
        self.driver = FakeDriver(folder / "state", host=folder.name)
        self._library = folder / "lib"
        self.root = folder / "root"
        self.root.mkdir()
        monkeypatch.setenv("GPUMESH_FAKE_NVML", str(self.driver.path))
        monkeypatch.setenv("LD_LIBRARY_PATH", str(self._library))
        self.prober = self.make()
        self._state = StateDirectory(folder / "kept")
        self._hangs = HangBook(self._state, "this boot")

    def install(self, missing: Iterable[str] = ()) -> None:
        """Put the library there, without the functions that an older driver lacks."""
        self._library.symlink_to(build.library(missing=missing))

    def make(self, *, deadline_s: float = 1.0, patience_s: float | None = None) -> Prober:
        """Take another prober, as a daemon does that starts."""
        gpu = GpuConfig(deadline_s=deadline_s, interval_s=0.5)
        self.prober = Prober(gpu, host="a", patience_s=patience_s, root=self.root)
        return self.prober

    async def restart(self) -> None:
        """End this run of the daemon and start the next: only what is on disk is known."""
        await self.prober.close()
        self.make()
        self.health = Health(Config())
        self._hangs = HangBook(self._state, "this boot")
        probe = self._hangs.before_the_first_look(boot_time())
        if probe is not None:
            self.health.handle_kept_hang(probe, self.now, UNIX + self.now)

    async def look(self) -> HealthReport:
        """Look once; five seconds pass in the time of hysteresis."""
        report = self.judge(self._hangs.handle_probe(await self.prober.probe(), boot_time()))
        self.now += 5.0
        return report

    async def look_until(self, is_so: Callable[[HealthReport], bool]) -> HealthReport:
        """Look until it is so."""
        ends_at = asyncio.get_running_loop().time() + PATIENCE_S
        while not is_so(report := await self.look()):
            assert asyncio.get_running_loop().time() < ends_at, f"it never came to pass: {self.latest}"
            await asyncio.sleep(0.02)
        return report

    async def settle(self) -> HealthReport:
        """Look until the driver has answered for every card."""
        return await self.look_until(lambda _: self.is_whole)

    @property
    def is_whole(self) -> bool:
        """Whether the last look got an answer of every card."""
        probe = self.latest
        return not probe.error and bool(probe.devices) and len(probe.devices) == probe.num_devices


def told(found: HealthReport | Gpu, check: str) -> Finding:
    """The one finding of that check."""
    (finding,) = (finding for finding in found.findings if finding.check == check)
    return finding


def codes(found: HealthReport | Gpu) -> list[str]:
    """Return ``check/code`` of what was found, but for the baseline, which new drivers' CUDA is beyond."""
    return [
        f"{finding.check}/{finding.evidence['code']}"
        for finding in found.findings
        if finding.check != "baseline"
    ]
