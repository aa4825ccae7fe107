"""How busy each MIG instance is: NVML's GPM (Hopper and newer) counts, and two samples make a value.

A carved-up card has no utilisation of its own, and its instances are told by GPM alone. One sample of each
GPU instance is taken at each look and held against that of the look before, so that the first look has
nothing to tell. Neither have two that are too close together, or between which card or machine slept.

Source: nvml.h, group GPM; NVIDIA/DCGM takes the same samples for its ``PROF_*`` fields.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from gpumesh.errors import DriverError, GpuLostError, NotSupportedError
from gpumesh.health.devices import MigInstance
from gpumesh.health.nvml_card import Card, Session
from gpumesh.health.nvml_errors import NOT_SUPPORTED
from gpumesh.health.plausible import keep_plausible

MIN_WINDOW_S: Final = 0.1
"""NVML renews its counters every 100 ms: two samples must be further apart than that."""
_MAX_SLEPT_S: Final = 0.5
"""The two clocks are not read in one instant; a suspend takes longer than this."""
METRICS: Final[Mapping[int, str]] = MappingProxyType(
    {1: "utilization_gpu_percent", 2: "utilization_sm_percent", 10: "utilization_memory_bandwidth_percent"}
)
"""NVML's number of a metric → what it is called here."""
CALLS: Final = (
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleAlloc",
    "nvmlGpmSampleFree",
    "nvmlGpmMigSampleGet",
    "nvmlGpmMetricsGet",
)
"""All of them or none: what one allocates, another frees."""
_METRICS_GET_VERSION: Final = 1
_ROOM_FOR_METRICS: Final = 1024
_DIGITS: Final = 2


class _Metric(ctypes.Structure):
    """nvml.h's nvmlGpmMetric_t."""

    _fields_ = (
        ("metric_id", ctypes.c_uint),
        ("result", ctypes.c_uint),
        ("value", ctypes.c_double),
        ("words", ctypes.c_void_p * 3),
    )


class _MetricsGet(ctypes.Structure):
    """nvml.h's nvmlGpmMetricsGet_t, with room to spare.

    A binding's own has as many metrics as the header that it was made from, and the driver may be newer.
    """

    _fields_ = (
        ("version", ctypes.c_uint),
        ("num_metrics", ctypes.c_uint),
        ("before", ctypes.c_void_p),
        ("after", ctypes.c_void_p),
        ("metrics", _Metric * _ROOM_FOR_METRICS),
    )


@dataclass(frozen=True, slots=True)
class Moment:
    """When a sample was taken, by two clocks: the second one goes on while the machine is suspended."""

    awake_s: float
    boot_s: float


def moment() -> Moment:
    """Return the present one."""
    return Moment(time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME))


@dataclass(slots=True)
class _Samples:
    """One GPU instance's two buffers, which take turns."""

    members: tuple[str, ...]
    """UUIDs of its compute instances: numbers of GPU instances are used again."""
    last: Any
    spare: Any
    taken_at: Moment | None = None
    look: int = 0


@dataclass(slots=True)
class _Watched:
    """One card."""

    is_supported: bool | None = None
    samples: dict[int, _Samples] = field(default_factory=dict)
    refused: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """GPU instances of which GPM does not tell, with their members."""


class ActivityWatch:
    """The samples of one driver session, by the UUID of the card; all are freed by the time it ends."""

    def __init__(self, session: Session, clock: Callable[[], Moment] = moment) -> None:
        self._session = session
        self._clock = clock
        self._cards: dict[str, _Watched] = {}
        self._look = 0
        self._has_calls = all(hasattr(session.nvml, name) for name in CALLS)
        self._asked = _MetricsGet(version=_METRICS_GET_VERSION, num_metrics=len(METRICS))

    def begin_look(self) -> None:
        """Note that all cards are looked at anew: one that is left out of a look has slept."""
        self._look += 1

    def read(
        self, card: Card, uuid: str, instances: tuple[MigInstance, ...] | None
    ) -> tuple[MigInstance, ...] | None:
        """Return the instances with how busy each is. Errors: GpuLostError.

        None, of a card that is not carved up: nothing is asked, and what was kept of it is freed.
        """
        if instances is None:
            self._forget(uuid, card.index)
            return None
        members = _members(instances)
        watched = self._cards.setdefault(uuid, _Watched())
        self._drop_gone(watched, members, card.index)
        if not members or not self._is_supported(card, watched):
            return instances
        found = {
            number: self._activity(card, watched, number, uuids)
            for number, uuids in members.items()
            if number not in watched.refused
        }
        return tuple(_with_activity(card, item, found.get(item.gpu_instance, {})) for item in instances)

    def close(self) -> None:
        """Free every sample, which must be done while the driver is open. Never raises."""
        for uuid in list(self._cards):
            self._forget(uuid, 0)

    def _forget(self, uuid: str, index: int) -> None:
        watched = self._cards.pop(uuid, None)
        if watched is not None:
            self._drop_gone(watched, {}, index)

    def _drop_gone(self, watched: _Watched, members: Mapping[int, tuple[str, ...]], index: int) -> None:
        for number, samples in list(watched.samples.items()):
            if members.get(number) != samples.members:
                self._drop(watched, number, index)
        for number, uuids in list(watched.refused.items()):
            if members.get(number) != uuids:
                del watched.refused[number]

    def _drop(self, watched: _Watched, number: int, index: int) -> None:
        samples = watched.samples.pop(number, None)
        if samples is not None:
            self._free(samples.last, index)
            self._free(samples.spare, index)

    def _free(self, sample: Any, index: int) -> None:
        with suppress(DriverError):
            self._session.call("nvmlGpmSampleFree", index, sample)

    def _is_supported(self, card: Card, watched: _Watched) -> bool:
        if not self._has_calls:
            return False
        if watched.is_supported is None:
            try:
                answer = card.session.call("nvmlGpmQueryDeviceSupport", card.index, card.handle)
                watched.is_supported = bool(answer.isSupportedDevice)
            except GpuLostError:
                raise
            except NotSupportedError:
                watched.is_supported = False
            except DriverError:
                return False
        return watched.is_supported

    def _activity(
        self, card: Card, watched: _Watched, number: int, members: tuple[str, ...]
    ) -> dict[str, float]:
        """Take a sample of one GPU instance, and return what lies between it and the one before.

        A failure costs these values alone and is no error of the card: instances come and go between looks.
        """
        now = self._clock()
        samples = watched.samples.get(number)
        if samples is not None and _is_too_close(samples, now):
            samples.look = self._look
            return {}
        values: dict[str, float] = {}
        try:
            if samples is None:
                samples = watched.samples[number] = self._allocate(card, members)
            card.session.call("nvmlGpmMigSampleGet", card.index, card.handle, number, samples.spare)
            if self._is_next(samples, now):
                values = self._between(card, samples)
        except GpuLostError:
            raise
        except NotSupportedError:
            watched.refused[number] = members
            self._drop(watched, number, card.index)
            return {}
        except DriverError:
            self._drop(watched, number, card.index)
            return {}
        samples.last, samples.spare = samples.spare, samples.last
        samples.taken_at, samples.look = now, self._look
        return values

    def _allocate(self, card: Card, members: tuple[str, ...]) -> _Samples:
        first = card.session.call("nvmlGpmSampleAlloc", card.index)
        try:
            return _Samples(members, first, card.session.call("nvmlGpmSampleAlloc", card.index))
        except DriverError:
            self._free(first, card.index)
            raise

    def _is_next(self, samples: _Samples, now: Moment) -> bool:
        if samples.taken_at is None or self._look - samples.look > 1:
            return False
        slept_s = (now.boot_s - samples.taken_at.boot_s) - (now.awake_s - samples.taken_at.awake_s)
        return slept_s < _MAX_SLEPT_S

    def _between(self, card: Card, samples: _Samples) -> dict[str, float]:
        asked = self._asked
        asked.before = ctypes.cast(samples.last, ctypes.c_void_p)
        asked.after = ctypes.cast(samples.spare, ctypes.c_void_p)
        for place, metric in enumerate(METRICS):
            # A metric that the driver passes over must not stand as it stood before.
            asked.metrics[place] = _Metric(metric_id=metric, result=NOT_SUPPORTED)
        try:
            card.session.call("nvmlGpmMetricsGet", card.index, asked)
        except (GpuLostError, NotSupportedError):
            raise
        except DriverError:
            # These two do not go together; the later one may with the next.
            return {}
        told = zip(METRICS.values(), asked.metrics, strict=False)
        return {name: round(metric.value, _DIGITS) for name, metric in told if metric.result == 0}


def _members(instances: tuple[MigInstance, ...]) -> dict[int, tuple[str, ...]]:
    """Return each GPU instance with the UUIDs of the compute instances that share it."""
    members: dict[int, tuple[str, ...]] = {}
    for item in instances:
        members[item.gpu_instance] = (*members.get(item.gpu_instance, ()), item.uuid)
    return members


def _is_too_close(samples: _Samples, now: Moment) -> bool:
    return samples.taken_at is not None and now.awake_s - samples.taken_at.awake_s <= MIN_WINDOW_S


def _with_activity(card: Card, instance: MigInstance, found: Mapping[str, Any]) -> MigInstance:
    kept, num_dropped = keep_plausible(replace(instance, **found))
    card.num_dropped += num_dropped
    return kept
