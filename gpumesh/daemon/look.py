"""The host's look at itself: probe, judge, publish - again and again, for as long as the daemon lives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from gpumesh.config import Config
from gpumesh.daemon.clock import boot_time, unix_offset
from gpumesh.daemon.hangbook import HangBook
from gpumesh.daemon.hostprobe import HostProber
from gpumesh.daemon.kmsg import KernelLog
from gpumesh.daemon.prober import Prober
from gpumesh.daemon.statedir import StateDirectory
from gpumesh.health.cadence import Cadence
from gpumesh.health.devices import Probe
from gpumesh.health.engine import Health
from gpumesh.health.inventory import Inventory
from gpumesh.health.lastreadings import LastReadings
from gpumesh.health.rules import HOST, subject_of
from gpumesh.health.silences import Silences
from gpumesh.health.xid_catalogue import kind_of
from gpumesh.health.xid_words import XidNews
from gpumesh.health.xids import settled_from_json, settled_to_json
from gpumesh.lease.sharing import Sharing
from gpumesh.model import Admission, Event, Finding, HealthReport, Identity
from gpumesh.records.clocks import ClockOffset

INVENTORY: Final = "inventory"
XIDS: Final = "xids"
RELEASED: Final = "the driver is let go of while this host is drained; `gpumesh uncordon` takes it up again"

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
    sharing rule says; ``silences`` is read with each look and by :meth:`take_silences`; ``on_event`` is given
    what is news to people. While ``is_drained`` says so and no program computes any more, the driver is let
    go of, so that it can be upgraded or unbound (dcgm-exporter#716); likewise while ``asked_release`` gives
    words for it, whatever runs. ``clock_offset``: how far peers' wall clocks are from this one. ``root`` is
    where /proc, /sys and /dev/kmsg are read.
    """

    def __init__(
        self,
        config: Config,
        state: StateDirectory,
        publisher: Publisher,
        *,
        identity: Identity,
        silences: Silences,
        own_findings: Callable[[float, float], tuple[Finding, ...]],
        lend: Callable[[Admission, str], None],
        on_report: Callable[[], None],
        on_event: Callable[[Event], None],
        is_drained: Callable[[], bool] = lambda: False,
        asked_release: Callable[[], str] = str,
        clock_offset: Callable[[float], ClockOffset | None] = lambda _: None,
        root: Path = Path("/"),
    ) -> None:
        self._config = config
        self._state = state
        self._publisher = publisher
        self._identity = identity
        self._own_findings = own_findings
        self._lend = lend
        self._on_report = on_report
        self._on_event = on_event
        self._is_drained = is_drained
        self._asked_release = asked_release
        self._wake = asyncio.Event()
        self._released = asyncio.Event()
        self._clock_offset = clock_offset
        self._clock: ClockOffset | None = None
        self._prober = Prober(config.gpu, host=identity.host_id, root=root)
        self._host_prober = HostProber(root)
        self._kernel_log = KernelLog(root)
        self._hangs = HangBook(state, identity.boot_id)
        self._health = Health(
            config,
            inventory=self._load_inventory(),
            silences=silences,
            settled_xids=settled_from_json(state.read(XIDS), identity.boot_id),
        )
        self._cadence = Cadence(config)
        self._last_readings = LastReadings()
        self._kept = self._health.inventory
        self._kept_xids = self._health.settled_xids
        self._sharing = Sharing(config.sharing)
        self.latest: Probe | None = None
        """The newest raw probe, for metrics and status."""
        self.num_looks = 0
        self._num_absurd = 0
        """Values that looks left out because no card can mean them."""

    def begin(self) -> None:
        """Tell what an earlier run knew and what no look has to be waited for: a driver that hangs."""
        now = boot_time()
        unix = now + unix_offset()
        probe = self._hangs.before_the_first_look(now)
        if probe is not None:
            self.latest = probe
            self._publish(self._health.handle_kept_hang(probe, now, unix), now, unix)

    async def run(self) -> None:
        """Look, publish, sleep; ends only by cancellation. A fault of ours in one look does not end it."""
        loop = asyncio.get_running_loop()
        next_at = loop.time()
        while True:
            try:
                await self.look_once()
            except Exception:  # noqa: BLE001 - our own bug must not leave the host unwatched
                pause_s = self._cadence.handle_failure()
                _log.exception("a look at this host failed; the next one is in %g s", pause_s)
            # A slow look delays the next one instead of piling up (nvidia_gpu_exporter#90).
            next_at = max(next_at + self._cadence.pause_s, loop.time())
            alarm = loop.call_at(next_at, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                alarm.cancel()
            self._wake.clear()
            next_at = min(next_at, loop.time())

    def wake(self) -> None:
        """Have the next look begin now; one that is under way is ended first."""
        self._wake.set()

    async def wait_released(self, timeout_s: float) -> bool:
        """Wait until a look has let go of the driver; False if none has within ``timeout_s``."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._released.wait(), timeout_s)
        return self._released.is_set()

    async def look_once(self) -> None:
        """Do one look and publish what it found; on a drained host, or on request, let go of the driver."""
        why = self._why_release()
        if why and await self._prober.let_go():
            self._publish_release(why)
            self._released.set()
            return
        self._released.clear()
        probe, host = await asyncio.gather(self._prober.probe(), self._host_prober.probe(boot_time()))
        now = boot_time()
        unix = now + unix_offset()
        # On disk before anything else: what comes next may be the end of this run (NVSentinel#1748).
        probe = self._hangs.handle_probe(probe, now)
        log = self._kernel_log.read_new(now)
        clock = self._clock = self._clock_offset(now)
        host = replace(
            host,
            kernel_lines=log.lines,
            kernel_log_error=log.error,
            clock_offset_s=clock.offset_s if clock else None,
            num_clock_peers=clock.num_peers if clock else 0,
        )
        report = self._health.handle_probe(probe, host, now, unix)
        self.latest = self._last_readings.handle_probe(replace(probe, xids=self._health.xids()), unix)
        self.num_looks += 1
        if not probe.is_hung:
            # The cards that a hung driver got to are told again with each look.
            self._num_absurd += sum(state.num_dropped for state in probe.devices)
        self._cadence.handle_look(report, probe, now, is_unsettled=self._health.is_unsettled)
        self._keep_inventory()
        self._keep_xids()
        for news in self._health.next_xid_news():
            self._on_event(_xid_event(news, self._identity))
        self._publish(report, now, unix)
        self._lend(*self._sharing.judge(probe, datetime.now().astimezone(), now))
        self._on_report()

    def _why_release(self) -> str:
        """Say why the driver is to be let go of; empty if it is not."""
        asked = self._asked_release()
        if asked or not self._is_drained() or _computes(self.latest):
            return asked
        return RELEASED

    def _publish_release(self, why: str) -> None:
        now = boot_time()
        unix = now + unix_offset()
        self.latest = Probe(driver=None, error=why, xids=self._health.xids())
        self._publish(self._health.handle_release(why, unix), now, unix)
        self._cadence.handle_failure()
        self._on_report()

    def take_silences(self) -> None:
        """Publish what silences that were made or ended change; the cards are not looked at for it."""
        now = boot_time()
        self._publish(self._health.handle_silences(now), now, now + unix_offset())
        self._on_report()

    def _publish(self, report: HealthReport, now: float, unix: float) -> None:
        own = self._own_findings(now, unix)
        self._publisher.set_health(replace(report, findings=report.findings + own) if own else report, now)

    def reconfigure(self, config: Config) -> None:
        """Take up a changed configuration of baseline and sharing.

        Errors: ConfigError for a wrong baseline file; nothing has changed then.
        """
        self._health.reconfigure(config)
        self._config = config
        self._sharing = Sharing(config.sharing)

    @property
    def counters(self) -> dict[str, float]:
        """The looks' own counters, for metrics."""
        return {
            "looks_total": self.num_looks,
            "look_interval_seconds": self._cadence.pause_s,
            "kernel_log_lost_total": self._kernel_log.num_lost,
            "absurd_values_total": self._num_absurd,
            "xids_dropped_total": self._health.num_xids_dropped,
            **({"clock_offset_seconds": self._clock.offset_s} if self._clock else {}),
        }

    async def close(self) -> None:
        """Let go of the driver."""
        self._kernel_log.close()
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

    def _keep_xids(self) -> None:
        settled = self._health.settled_xids
        if settled is not self._kept_xids:
            loses = "after a restart, Xids that a card has recovered from may be held against it once more"
            if self._state.write(XIDS, settled_to_json(settled, self._identity.boot_id), loses=loses):
                self._kept_xids = settled


def _computes(probe: Probe | None) -> bool:
    """Tell whether work was left at the last look. A desktop's own programs stay; they are not waited for."""
    states = probe.devices if probe else ()
    processes = [item for state in states if state.reading for item in state.reading.processes or ()]
    return any(process.kind == "compute" for process in processes)


def _xid_event(news: XidNews, identity: Identity) -> Event:
    record = news.record
    return Event(
        kind="xid",
        time=news.unix,
        host_id=identity.host_id,
        host=identity.name,
        subject=subject_of(news.uuid) if news.uuid else HOST,
        reason=news.words,
        fields={
            "xid": record.xid,
            "class": kind_of(record.xid).calls.value,
            "new": news.num_new,
            "count": record.num_seen,
            "pci": record.place,
            "pid": record.pid,
            "process": record.process,
        },
    )
