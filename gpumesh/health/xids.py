"""This boot's Xids by card: two sources joined, counted, and settled once the card has recovered.

The driver's events and the kernel's log tell of the same Xids. Each source is counted by itself and the
greater count holds, so that no window of time has to decide which two belong together. The kernel's log
reaches back to the boot, also before the daemon started (NVSentinel#1532), and ends with it: a reboot starts
from nothing.

A trouble is settled, once and for all until it is seen again, when the card answers and

- a reset or a reload of the driver was seen since: the card was away and is back, or its energy counter,
  which only those two set back, fell; or the driver said (Xid 154) that it asks for nothing any more; or
- it has been quiet for ``health.xid_settle`` and the driver asks for no recovery action; or, if it cannot say
  so (older drivers), for ``health.xid_settle_untold``; a card said to have fallen off the bus cannot answer
  at all unless it came back, so the shorter time does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpumesh.config import HealthConfig
from gpumesh.health.devices import DeviceState, Probe
from gpumesh.health.xid_catalogue import OFF_BUS_XID, RECOVERY_XID, Calls, kind_of
from gpumesh.health.xid_lines import XidSighting, place_of

MAX_PLACES: Final = 64
MAX_KINDS: Final = 64
"""Xids told apart on one card."""
NEWS_S: Final = 60.0
SAME_FALL_S: Final = 60.0
"""An Xid 79 and the kernel's other lines about the same fall are this close."""
_DRIVER_NOT_LOADED: Final = 9
_GONE: Final = frozenset({15, 16, 28})
"""NVML's answers for a card that only a reset, a reload or a reboot brings back; 999 may pass by itself."""
_NO_ACTION: Final = 0
_LAST: Final = 1 << 31
_MAX_INSTANT: Final = 1e12

_Key = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class XidRecord:
    """All sightings of one Xid on one card since boot; instants are seconds on the boot clock."""

    place: str
    """PCI address without the function."""
    xid: int | None
    num_seen: int
    first_at: float
    last_at: float
    pid: int | None
    process: str | None
    asked: int | None
    is_settled: bool


@dataclass(slots=True)
class _Course:
    first_at: float
    last_at: float
    num_kernel: int = 0
    num_driver: int = 0
    num_told: int = 0
    told_at: float | None = None
    pid: int | None = None
    process: str | None = None
    asked: int | None = None

    @property
    def num_seen(self) -> int:
        return max(self.num_kernel, self.num_driver)


@dataclass(slots=True)
class _Sign:
    """What the looks so far show of one card's recovery."""

    away_at: float | None = None
    energy_mj: int | None = None


@dataclass(slots=True)
class XidLog:
    """Takes sightings and looks in, gives records out. Every table is bounded; what does not fit is counted.

    ``settled`` is what was kept on disk from an earlier daemon run of the same boot: ``place/xid`` → instant.
    ``thresholds`` say how long a card must have been quiet.
    """

    thresholds: HealthConfig = field(default_factory=HealthConfig)
    settled: Mapping[str, float] = field(default_factory=dict)
    num_dropped: int = 0
    _courses: dict[_Key, _Course] = field(default_factory=dict)
    _signs: dict[str, _Sign] = field(default_factory=dict)

    def handle_sighting(self, sighting: XidSighting) -> None:
        """Count one sighting."""
        if sighting.xid is None and self._is_told_by_xid(sighting):
            return
        key = (sighting.place, sighting.xid)
        course = self._courses.get(key)
        if course is None:
            if not self._has_room(sighting.place):
                self.num_dropped += 1
                return
            course = self._courses[key] = _Course(sighting.at, sighting.at)
        course.num_kernel += sighting.is_kernel
        course.num_driver += not sighting.is_kernel
        course.first_at = min(course.first_at, sighting.at)
        course.last_at = max(course.last_at, sighting.at)
        if sighting.is_kernel:
            course.pid, course.process = sighting.pid, sighting.process
        if sighting.xid == RECOVERY_XID and sighting.asked is not None:
            course.asked = sighting.asked
            if sighting.asked == _NO_ACTION:
                self._settle(sighting.place, sighting.at)

    def handle_look(self, probe: Probe, now: float) -> None:
        """See from one look which cards have recovered. A driver that hangs tells nothing."""
        if probe.is_hung:
            return
        if probe.driver is None:
            if probe.error_code == _DRIVER_NOT_LOADED:
                for known in {known for known, _ in self._courses}:
                    self._sign(known).away_at = now
            return
        for state in probe.devices:
            place = place_of(state.info.pci_bus_id) if state.info else None
            if place is not None:
                self._judge(place, state, now)

    def records(self) -> tuple[XidRecord, ...]:
        """Return everything seen since boot, by card and Xid."""
        return tuple(self._record(key) for key in sorted(self._courses, key=_in_order))

    def next_news(self, now: float) -> tuple[tuple[XidRecord, int], ...]:
        """Return what was seen since it was last told, each with how many times; drains.

        The first sighting is told at once, more of the same once a minute: a flood is not to push everything
        else out of people's sight.
        """
        news = []
        for key in sorted(self._courses, key=_in_order):
            course = self._courses[key]
            is_due = course.told_at is None or now - course.told_at >= NEWS_S
            if is_due and course.num_seen > course.num_told:
                news.append((self._record(key), course.num_seen - course.num_told))
                course.num_told, course.told_at = course.num_seen, now
        return tuple(news)

    def _record(self, key: _Key) -> XidRecord:
        course = self._courses[key]
        return XidRecord(
            place=key[0],
            xid=key[1],
            num_seen=course.num_seen,
            first_at=course.first_at,
            last_at=course.last_at,
            pid=course.pid,
            process=course.process,
            asked=course.asked,
            is_settled=self._is_settled(key),
        )

    def _is_settled(self, key: _Key) -> bool:
        settled_at = self.settled.get(_name(key))
        return settled_at is not None and settled_at >= self._courses[key].last_at

    def _is_told_by_xid(self, sighting: XidSighting) -> bool:
        told = self._courses.get((sighting.place, OFF_BUS_XID))
        return told is not None and abs(sighting.at - told.last_at) <= SAME_FALL_S

    def _has_room(self, place: str) -> bool:
        places = {known for known, _ in self._courses}
        if place not in places:
            return len(places) < MAX_PLACES
        return sum(known == place for known, _ in self._courses) < MAX_KINDS

    def _sign(self, place: str) -> _Sign:
        return self._signs.setdefault(place, _Sign())

    def _judge(self, place: str, state: DeviceState, now: float) -> None:
        if not any(known == place for known, _ in self._courses):
            self._remember_energy(place, state)
            return
        sign = self._sign(place)
        if state.reading is None and state.error_code in _GONE:
            sign.away_at = now
        elif state.reading is not None:
            if sign.away_at is not None:
                self._settle(place, sign.away_at)
                sign.away_at = None
            before = sign.energy_mj
            self._remember_energy(place, state)
            if before is not None and (state.reading.energy_mj or before) < before:
                self._settle(place, now)
            if not state.error:
                self._settle_aged(place, state.reading.recovery_action, now)

    def _remember_energy(self, place: str, state: DeviceState) -> None:
        if state.reading is not None and len(self._signs) < 2 * MAX_PLACES:
            self._sign(place).energy_mj = state.reading.energy_mj

    def _settle_aged(self, place: str, asked: int | None, now: float) -> None:
        for key, course in self._courses.items():
            if key[0] != place or self._is_settled(key):
                continue
            is_off_bus = kind_of(key[1]).calls is Calls.REBOOT
            if asked == _NO_ACTION or (asked is None and is_off_bus):
                needed_s = self.thresholds.xid_settle_s
            elif asked is None:
                needed_s = self.thresholds.xid_settle_untold_s
            else:
                continue
            if now - course.last_at >= needed_s:
                self._note_settled(key, now)

    def _settle(self, place: str, at: float) -> None:
        for key in [key for key in self._courses if key[0] == place]:
            if not self._is_settled(key):
                self._note_settled(key, at)

    def _note_settled(self, key: _Key, at: float) -> None:
        self.settled = {**self.settled, _name(key): at}


def settled_from_json(document: Any, boot_id: str) -> dict[str, float]:
    """Return what an earlier run of this boot kept; nothing of another boot, nothing that makes no sense."""
    if not isinstance(document, Mapping) or document.get("boot_id") != boot_id:
        return {}
    settled = document.get("settled")
    if not isinstance(settled, Mapping):
        return {}
    sound = [
        (str(name)[:40], float(at))
        for name, at in settled.items()
        if isinstance(at, int | float) and not isinstance(at, bool) and 0 <= at < _MAX_INSTANT
    ]
    return dict(sound[: MAX_PLACES * MAX_KINDS])


def settled_to_json(settled: Mapping[str, float], boot_id: str) -> dict[str, Any]:
    """Return the document to keep on disk."""
    return {"boot_id": boot_id, "settled": dict(settled)}


def sightings_of(probe: Probe, now: float) -> Iterable[XidSighting]:
    """Return what the driver's events of one look tell."""
    for event in probe.xid_events:
        place = place_of(event.pci_bus_id)
        if place is not None:
            yield XidSighting(place, event.xid, now, is_kernel=False)


def _name(key: _Key) -> str:
    return f"{key[0]}/{'-' if key[1] is None else key[1]}"


def _in_order(key: _Key) -> tuple[str, int]:
    # A fall that an Xid tells comes before the same fall without one.
    return key[0], _LAST if key[1] is None else key[1]
