"""The host's look at itself: probe, judge, publish - every interval, for as long as the daemon lives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from gpumesh.config import Config
from gpumesh.daemon.clock import boot_time, unix_offset
from gpumesh.daemon.hostprobe import HostProber
from gpumesh.daemon.prober import Prober
from gpumesh.daemon.statedir import StateDirectory
from gpumesh.health.devices import Probe
from gpumesh.health.engine import Health
from gpumesh.health.inventory import Inventory
from gpumesh.health.silences import Silences
from gpumesh.lease.sharing import Sharing
from gpumesh.model import Admission, Finding, HealthReport

INVENTORY: Final = "inventory"

_log = logging.getLogger(__name__)


class Publisher(Protocol):
    """Who hears what a look found: the mesh engine."""

    def set_health(self, report: HealthReport, now: float) -> None:
        """Publish the report."""
        ...


class Look:
    """Runs the prober and the health engine and publishes their report.

    ``own_findings`` gives what the daemon finds about itself at an instant (boot clock, Unix); ``on_report``
    is called after each look, so that the shell sends what it led to; ``lend`` is told what the owner's
    sharing rule says; ``silences`` is read with each look.
    """

    def __init__(
        self,
        config: Config,
        state: StateDirectory,
        publisher: Publisher,
        *,
        host_id: str,
        silences: Silences,
        own_findings: Callable[[float, float], tuple[Finding, ...]],
        lend: Callable[[Admission, str], None],
        on_report: Callable[[], None],
    ) -> None:
        self._config = config
        self._state = state
        self._publisher = publisher
        self._own_findings = own_findings
        self._lend = lend
        self._on_report = on_report
        self._prober = Prober(config.gpu, host=host_id)
        self._host_prober = HostProber()
        self._health = Health(config, inventory=self._load_inventory(), silences=silences)
        self._kept = self._health.inventory
        self._sharing = Sharing(config.sharing)
        self.latest: Probe | None = None
        """The newest raw probe, for metrics and status."""
        self.num_looks = 0

    async def run(self) -> None:
        """Look, publish, sleep; ends only by cancellation. A fault of ours in one look does not end it."""
        loop = asyncio.get_running_loop()
        next_at = loop.time()
        while True:
            try:
                await self.look_once()
            except Exception:  # noqa: BLE001 - our own bug must not leave the host unwatched
                _log.exception(
                    "a look at this host failed; the next one is in %g s", self._config.gpu.interval_s
                )
            # A slow look delays the next one instead of piling up (nvidia_gpu_exporter#90).
            next_at = max(next_at + self._config.gpu.interval_s, loop.time())
            await asyncio.sleep(next_at - loop.time())

    async def look_once(self) -> None:
        """Do one look and publish what it found."""
        probe, host = await asyncio.gather(self._prober.probe(), self._host_prober.probe(boot_time()))
        now = boot_time()
        unix = now + unix_offset()
        report = self._health.handle_probe(probe, host, now, unix)
        self.latest = probe
        self.num_looks += 1
        self._keep_inventory()
        own = self._own_findings(now, unix)
        self._publisher.set_health(replace(report, findings=report.findings + own) if own else report, now)
        self._lend(*self._sharing.judge(probe, datetime.now().astimezone(), now))
        self._on_report()

    def reconfigure(self, config: Config) -> None:
        """Take up a changed configuration of baseline and sharing."""
        self._config = config
        self._health.reconfigure(config)
        self._sharing = Sharing(config.sharing)

    async def close(self) -> None:
        """Let go of the driver."""
        await self._prober.close()

    def _load_inventory(self) -> Inventory:
        document = self._state.read(INVENTORY)
        return Inventory() if document is None else Inventory.from_json(document)

    def _keep_inventory(self) -> None:
        inventory = self._health.inventory
        if inventory is not self._kept:
            loses = "a card lost while the daemon is down would not be noticed"
            if self._state.write(INVENTORY, inventory.to_json(), loses=loses):
                self._kept = inventory
