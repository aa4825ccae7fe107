"""One host's health: a probe in, a report out. No I/O, no clock of its own.

stock-taking → checks → hysteresis → verdicts. The daemon feeds each probe, publishes the report, and keeps
``inventory`` on disk whenever it changed. A report that says the same as the one before is the same object,
and nothing in it moves with the noise of a reading: what it holds travels to the whole fleet.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from gpumesh.config import Config
from gpumesh.health import baseline as baselines
from gpumesh.health.checks import CHECKS
from gpumesh.health.conditions import Circumstances
from gpumesh.health.devices import DeviceInfo, DeviceState, Probe, Reading, XidCount
from gpumesh.health.hostprobe import HostProbe
from gpumesh.health.inventory import Inventory, KnownCard
from gpumesh.health.occupancy import FreeMemory, is_busy
from gpumesh.health.rules import HOST, Card, CardCheck, HostCheck, Look, Scope, subject_of
from gpumesh.health.silences import Silences
from gpumesh.health.stock import Stock, take_stock
from gpumesh.health.verdicts import Standing, verdict_of
from gpumesh.health.xid_lines import LineReader
from gpumesh.health.xid_words import XidNews, counts_of, news_of
from gpumesh.health.xids import XidLog, sightings_of
from gpumesh.model import Baseline, Finding, Gpu, HealthReport, Scalar, Severity, Verdict

LEAST_GAP_S: Final = 30.0
"""A shorter pause between looks never breaks a symptom's course."""
GAP_INTERVALS: Final = 3.0
_RELEASED: Final[Mapping[str, Scalar]] = MappingProxyType({"code": "released"})


class Health:
    """Turns probes into health reports.

    ``inventory`` is what was kept on disk, ``settled_xids`` likewise, of this boot; ``baseline`` what the
    host is held to (read from ``baseline.file``, or the built-in one, if not given); ``silences`` is the
    operator's word on what is not to count. Errors: ConfigError for a wrong baseline file.
    """

    def __init__(
        self,
        config: Config,
        *,
        inventory: Inventory | None = None,
        baseline: baselines.BaselineRules | None = None,
        silences: Silences | None = None,
        settled_xids: Mapping[str, float] | None = None,
    ) -> None:
        self._config = config
        self._inventory = inventory or Inventory()
        self._baseline = baseline or baselines.load(config.baseline)
        self._standing = Standing(max(LEAST_GAP_S, GAP_INTERVALS * config.longest_look_s), config.health)
        self._host_checks = [(check, check.start(config)) for check in CHECKS if isinstance(check, HostCheck)]
        self._card_checks = [(check, check.start(config)) for check in CHECKS if isinstance(check, CardCheck)]
        self._silences = silences or Silences()
        self._looked_at = 0.0
        self._free: dict[str, FreeMemory] = {}
        self._lines = LineReader()
        self._xids = XidLog(config.health, settled_xids or {})
        self._now = self._unix_offset = 0.0
        self._released_at: float | None = None
        self._driver_version: str | None = None
        self._cuda_version: str | None = None
        self._report = HealthReport(
            verdict=Verdict.UNKNOWN,
            gpus=tuple(_remembered(card) for card in self._inventory.cards),
        )
        self._conclude_again: Callable[[], HealthReport] = lambda: self._report
        """What was concluded last, with the silences that stand now."""

    @property
    def inventory(self) -> Inventory:
        """What is to be kept on disk; another object whenever something changed."""
        return self._inventory

    @property
    def report(self) -> HealthReport:
        """The latest report; before the first probe everything is unknown."""
        return self._report

    @property
    def is_unsettled(self) -> bool:
        """Whether a fault is soon to be told, or one that was told soon to go: worth looking more often."""
        return self._standing.is_unsettled()

    @property
    def settled_xids(self) -> Mapping[str, float]:
        """What is to be kept on disk for as long as this boot lasts; another object whenever it changed."""
        return self._xids.settled

    def xids(self) -> tuple[XidCount, ...]:
        """Return every Xid since boot, by card."""
        return counts_of(self._xids.records(), self._inventory.cards, self._unix_offset)

    def next_xid_news(self) -> tuple[XidNews, ...]:
        """Return the Xids that the looks since the last call brought; drains."""
        return news_of(self._xids.next_news(self._now), self._inventory.cards, self._unix_offset)

    def reconfigure(self, config: Config) -> None:
        """Take up changed expectations, sharing and baseline; what stands, stands.

        Errors: ConfigError for a wrong baseline file; nothing has changed then.
        """
        self._baseline = baselines.load(config.baseline)
        self._config = config

    def handle_probe(self, probe: Probe, host: HostProbe, now: float, unix: float) -> HealthReport:
        """Take one look into account and return what is now concluded.

        ``now`` is seconds on the boot clock, ``unix`` is for ``since`` alone.
        """
        self._looked_at = now
        self._released_at = None
        stock = take_stock(self._inventory, probe, expected=self._config.gpu.expected, unix=unix)
        self._inventory = stock.inventory
        self._take_versions(probe)
        self._take_xids(probe, host, now, unix)
        baseline = self._hold_to_baseline(host, stock)
        xids = self._xids.records()
        look = Look(probe, host, stock, _bus(probe), baseline, xids, self._config, now, unix)
        # A card that a hung driver did not get to has refused nothing; nor has one that was let sleep.
        cards = [
            self._card(state, uuid, now)
            for uuid, state in stock.seen.items()
            if not state.is_resting and (state.reading is not None or not probe.is_hung)
        ]
        self._run_host_checks(look)
        self._run_card_checks(cards, now, unix)
        known = {HOST} | {subject_of(card.uuid) for card in self._inventory.cards}
        self._standing.keep_subjects(known.__contains__)
        self._conclude_again = functools.partial(self._conclude, stock, baseline)
        return self._take(self._conclude_again())

    def handle_silences(self, now: float) -> HealthReport:
        """Take silences that were made or ended into account at once, without another look."""
        self._looked_at = now
        return self._take(self._conclude_again())

    def _take(self, report: HealthReport) -> HealthReport:
        if report != self._report:
            self._report = report
        return self._report

    def _run_host_checks(self, look: Look) -> None:
        for check, see in self._host_checks:
            symptoms = see(look)
            if symptoms is not None:
                self._standing.handle_symptoms(check.name, symptoms, _everything, look.now, look.unix)

    def _run_card_checks(self, cards: list[Card], now: float, unix: float) -> None:
        for check, see in self._card_checks:
            judged = [card for card in cards if card.is_read or check.scope is Scope.CARD]
            symptoms = [symptom for card in judged for symptom in see(card)]
            subjects = {card.subject for card in judged}
            self._standing.handle_symptoms(check.name, symptoms, subjects.__contains__, now, unix)

    def _take_xids(self, probe: Probe, host: HostProbe, now: float, unix: float) -> None:
        self._now, self._unix_offset = now, unix - now
        for line in host.kernel_lines:
            sighting = self._lines.handle_line(line)
            if sighting is not None:
                self._xids.handle_sighting(sighting)
        for sighting in sightings_of(probe, now):
            self._xids.handle_sighting(sighting)
        self._xids.handle_look(probe, now)

    def _take_versions(self, probe: Probe) -> None:
        if probe.driver is not None:
            self._driver_version = probe.driver.driver_version
            self._cuda_version = probe.driver.cuda_version
        elif not probe.is_hung:
            # A hung driver is still the same one; one that is gone may come back as another.
            self._driver_version = self._cuda_version = None

    def _hold_to_baseline(self, host: HostProbe, stock: Stock) -> Baseline:
        toolkit = host.toolkit_version
        found = {
            "driver": self._driver_version,
            "cuda": self._cuda_version,
            "container-toolkit": baselines.NOT_INSTALLED if toolkit == "" else toolkit,
            "kernel": host.kernel,
        }
        now = Circumstances(host, self._inventory.cards, stock.seen)
        return self._baseline.hold(found, self._config.baseline.mode, now)

    def _card(self, state: DeviceState, uuid: str, now: float) -> Card:
        known = self._inventory.find(uuid)
        info = state.info or _info(known, uuid, state.index)
        is_read = state.reading is not None and state.info is not None
        return Card(info, state, state.reading or Reading(), is_read=is_read, now=now)

    def _conclude(self, stock: Stock, baseline: Baseline | None) -> HealthReport:
        findings = self._findings(HOST)
        cards = [self._conclude_card(card, stock) for card in self._inventory.cards]
        kept = {card.uuid for card in self._inventory.cards}
        self._free = {uuid: free for uuid, free in self._free.items() if uuid in kept}
        return HealthReport(
            verdict=verdict_of(findings, is_known=True),
            findings=findings,
            gpus=tuple(cards),
            driver_version=self._driver_version,
            cuda_version=self._cuda_version,
            baseline=baseline,
        )

    def _findings(self, subject: str) -> tuple[Finding, ...]:
        return self._silences.mark(self._standing.findings(subject), self._looked_at)

    def handle_release(self, reason: str, unix: float) -> HealthReport:
        """Take it that the driver was let go of: cards are neither known nor lost until the next look.

        ``unix`` is for ``since`` alone.
        """
        if self._released_at is None:
            self._released_at = unix
        self._conclude_again = functools.partial(
            self._conclude_released, reason, self._released_at, self._report.baseline
        )
        return self._take(self._conclude_again())

    def _conclude_released(self, reason: str, since: float, baseline: Baseline | None) -> HealthReport:
        report = self._conclude(Stock(self._inventory, is_complete=False), baseline)
        note = Finding("driver", HOST, Severity.INFO, reason, evidence=_RELEASED, since=since)
        gpus = tuple(
            replace(gpu, findings=(*gpu.findings, replace(note, subject=subject_of(gpu.uuid))))
            for gpu in report.gpus
        )
        return replace(report, findings=(*report.findings, note), gpus=gpus)

    def _rested(self, known: KnownCard, findings: tuple[Finding, ...]) -> Gpu:
        """Return what was last concluded of a card that was let sleep since."""
        before = next((gpu for gpu in self._report.gpus if gpu.uuid == known.uuid), _remembered(known))
        is_known = before.verdict is not Verdict.UNKNOWN
        return replace(
            before, index=known.index, verdict=verdict_of(findings, is_known=is_known), findings=findings
        )

    def _conclude_card(self, known: KnownCard, stock: Stock) -> Gpu:
        state = stock.seen.get(known.uuid)
        reading = state.reading if state else None
        findings = self._findings(subject_of(known.uuid))
        if state is not None and state.is_resting:
            return self._rested(known, findings)
        free = self._free.setdefault(known.uuid, FreeMemory())
        return Gpu(
            uuid=known.uuid,
            index=None if known.uuid in stock.lost else known.index,
            model=known.model,
            memory_bytes=known.memory_bytes,
            memory_free_bytes=free.handle_reading(
                reading.memory_free_bytes if reading else None, known.memory_bytes
            ),
            capability=known.capability,
            pci_bus_id=known.pci_bus_id,
            is_busy=is_busy(reading.processes, self._config.sharing.ignore_processes) if reading else None,
            verdict=verdict_of(findings, is_known=reading is not None),
            findings=findings,
        )


def _everything(_subject: str) -> bool:
    return True


def _bus(probe: Probe) -> frozenset[str] | None:
    return None if probe.pci_addresses is None else frozenset(probe.pci_addresses)


def _info(known: KnownCard | None, uuid: str, index: int) -> DeviceInfo:
    """Return what is remembered of a card whose identity the driver does not give."""
    if known is None:
        return DeviceInfo(index=index, uuid=uuid, name="", pci_bus_id="")
    return DeviceInfo(
        index=index,
        uuid=uuid,
        name=known.model,
        pci_bus_id=known.pci_bus_id,
        capability=known.capability,
        memory_total_bytes=known.memory_bytes,
    )


def _remembered(card: KnownCard) -> Gpu:
    return Gpu(
        uuid=card.uuid,
        index=card.index,
        model=card.model,
        memory_bytes=card.memory_bytes,
        capability=card.capability,
        pci_bus_id=card.pci_bus_id,
        verdict=Verdict.UNKNOWN,
    )
