"""The NVML driver: the only module that knows NVIDIA's library and its Python binding.

What a card cannot say is remembered and not asked again; what it is, is read once a session; what one card
does never hides another. Every call is announced before it is made, so that a watcher outside this process
can tell in which one the driver is stuck.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gpumesh.errors import DriverAbsentError, DriverError, GpuLostError
from gpumesh.health import nvml_errors
from gpumesh.health.devices import DeviceInfo, DeviceState, DriverInfo, MigInstance, Reading
from gpumesh.health.nvml_card import Card, Known, Session
from gpumesh.health.nvml_events import EventWatch
from gpumesh.health.nvml_gpm import ActivityWatch, Moment, moment
from gpumesh.health.nvml_mig import read_instances, read_layout, read_mig_mode
from gpumesh.health.nvml_processes import read_processes
from gpumesh.health.nvml_readings import read_memory, read_remapped, read_seldom, read_utilization
from gpumesh.health.nvml_table import (
    FIELDS,
    IDENTITY,
    IDENTITY_FIELDS,
    READING,
    REQUIRED,
    UNKNOWN_PERFORMANCE_STATE,
    Call,
    as_text,
)
from gpumesh.health.pcieport import port_of
from gpumesh.health.plausible import keep_plausible, keep_plausible_memory
from gpumesh.health.processtable import ProcessTable

SELDOM_LOOKS: Final = 12
"""What hardly ever changes is read with every so many looks: once a minute at the default interval."""
_MAX_KNOWN: Final = 256


class NvmlDriver:
    """The :class:`~gpumesh.health.devices.Driver` that speaks NVML.

    ``root`` is where /proc and /sys are read; ``announce`` is told each call before it is made, such as
    ``nvmlDeviceGetTemperature on gpu 1``; ``clock`` dates samples of which two make a value.
    """

    def __init__(
        self,
        *,
        root: Path = Path("/"),
        announce: Callable[[str], None] = lambda _: None,
        clock: Callable[[], Moment] = moment,
    ) -> None:
        self._root = root
        self._announce = announce
        self._clock = clock
        self._table = ProcessTable(root)
        self._session: Session | None = None
        self._watch: EventWatch | None = None
        self._activity: ActivityWatch | None = None
        self._known: dict[str, Known] = {}
        self._last: dict[int, DeviceInfo] = {}
        self._num_devices: int | None = None

    def open(self) -> DriverInfo:
        """Attach to the driver. Errors: DriverAbsentError (no driver, library or binding), DriverError."""
        nvml = _binding()
        self._announce("nvmlInit")
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise nvml_errors.of_driver(error.value, "nvmlInit", self._root) from error
        self._session = Session(nvml, self._announce)
        self._watch = EventWatch(self._session)
        self._activity = ActivityWatch(self._session, self._clock)
        self._known = {}
        return DriverInfo(
            driver_version=self._ask_driver("nvmlSystemGetDriverVersion", as_text),
            library_version=self._ask_driver("nvmlSystemGetNVMLVersion", as_text),
            cuda_version=self._ask_driver("nvmlSystemGetCudaDriverVersion", _cuda_version),
        )

    def close(self) -> None:
        """Let go of the driver."""
        if self._watch is not None:
            self._watch.close()
        self._forget_activity()
        session, self._session, self._watch, self._activity = self._session, None, None, None
        if session is not None:
            self._announce("nvmlShutdown")
            with suppress(session.nvml.NVMLError):
                session.nvml.nvmlShutdown()

    def count(self) -> int:
        """Return how many cards the driver sees now. Errors: DriverError."""
        nvml = self._opened().nvml
        self._announce("nvmlDeviceGetCount")
        try:
            num_devices = int(nvml.nvmlDeviceGetCount())
        except nvml.NVMLError as error:
            raise nvml_errors.of_driver(error.value, "nvmlDeviceGetCount", self._root) from error
        if self._num_devices not in {None, num_devices}:
            # Indices may mean other cards now: one without a handle can no longer be named by its index.
            self._last = {}
            self._forget_activity()
        self._num_devices = num_devices
        if self._activity is not None:
            self._activity.begin_look()
        return num_devices

    def probe_device(self, index: int) -> DeviceState:
        """Look at one card; what it refuses stands in the state."""
        state = self._look(index)
        if self._watch is None or state.info is None:
            return state
        return replace(state, xids=self._watch.take(state.info.uuid, index))

    def _look(self, index: int) -> DeviceState:
        try:
            card, uuid = self._attach(index)
        except DriverError as error:
            return _failed(index, self._last.get(index), error)
        if self._watch is not None:
            self._watch.begin(card, uuid)
        try:
            info = self._identity(card, uuid)
            self._last[index] = info
            reading = self._reading(card, info)
        except DriverError as error:
            return _failed(index, card.known.info or self._last.get(index), error)
        return DeviceState(
            index=index,
            info=info,
            reading=reading,
            error="" if card.error is None else str(card.error),
            error_code=None if card.error is None else card.error.code,
            num_dropped=card.num_dropped + card.known.num_dropped,
        )

    def _attach(self, index: int) -> tuple[Card, str]:
        """Return the card now at ``index``: handle and UUID are asked each time, as indices can shift."""
        session = self._opened()
        handle = session.call("nvmlDeviceGetHandleByIndex", index, index, is_handle=True)
        try:
            uuid = as_text(session.call("nvmlDeviceGetUUID", index, handle))
        except ValueError as error:
            raise DriverError("the card's UUID is no text", call="nvmlDeviceGetUUID") from error
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
            self._forget_activity()
        return Card(session, index, handle, self._known.setdefault(uuid, Known())), uuid

    def _forget_activity(self) -> None:
        if self._activity is not None:
            self._activity.close()

    def _opened(self) -> Session:
        if self._session is None:
            raise DriverError("the driver is not open")
        return self._session

    def _identity(self, card: Card, uuid: str) -> DeviceInfo:
        if card.known.info is not None:
            return replace(card.known.info, index=card.index)
        values = {call.field: card.ask(call) for call in IDENTITY}
        values |= card.fields(IDENTITY_FIELDS)
        name = card.ask(Call("name", ("nvmlDeviceGetName",), convert=as_text))
        address = card.ask(Call("pci", ("nvmlDeviceGetPciInfo",), convert=_bus_id))
        port = port_of(address or "", self._root)
        info, card.known.num_dropped = keep_plausible(
            DeviceInfo(
                index=card.index,
                uuid=uuid,
                name=name or "unknown GPU",
                pci_bus_id=address or "",
                memory_total_bytes=read_memory(card).get("total"),
                pcie_gen_host_max=port.gen_max,
                pcie_width_host_max=port.width_max,
                **values,
            )
        )
        if card.error is None:
            card.known.info = info
        return info

    def _reading(self, card: Card, info: DeviceInfo) -> Reading:
        values = read_mig_mode(card)
        is_carved = values.get("mig_enabled")
        if is_carved != card.known.mig_enabled:
            # With MIG on or off a card supports other things.
            card.known.unsupported.clear()
            card.known.mig_enabled, card.known.num_looks = is_carved, 0
        values |= {call.field: card.ask(call) for call in READING}
        if values["performance_state"] == UNKNOWN_PERFORMANCE_STATE:
            values["performance_state"] = None
        if card.known.num_looks % SELDOM_LOOKS == 0:
            card.known.seldom = read_seldom(card, info.virtualization, info.num_nvlinks)
            card.known.mig_layout = read_layout(card, info.num_mig_instances_max) if is_carved else None
        card.known.num_looks += 1
        values |= card.known.seldom
        values["mig_instances"] = self._instances(card, info.uuid)
        values |= card.fields(FIELDS)
        values |= read_utilization(card)
        values |= read_remapped(card)
        memory = read_memory(card)
        reading, num_dropped = keep_plausible(
            Reading(
                **values,
                memory_used_bytes=memory.get("used"),
                memory_free_bytes=memory.get("free"),
                memory_reserved_bytes=memory.get("reserved"),
                processes=read_processes(card, self._table, card.known.mig_layout or ()),
            )
        )
        card.num_dropped += num_dropped
        reading, num_dropped = keep_plausible_memory(reading, info.memory_total_bytes)
        card.num_dropped += num_dropped
        return reading

    def _instances(self, card: Card, uuid: str) -> tuple[MigInstance, ...] | None:
        layout = card.known.mig_layout
        instances = None if layout is None else read_instances(card, layout)
        return instances if self._activity is None else self._activity.read(card, uuid, instances)

    def _ask_driver(self, function: str, convert: Callable[[Any], str]) -> str | None:
        nvml = self._opened().nvml
        self._announce(function)
        try:
            return convert(getattr(nvml, function)())
        except (nvml.NVMLError, AttributeError, ValueError):
            return None


def _binding() -> types.ModuleType:
    """Return NVIDIA's binding. It is imported late, so that a host without it still runs the daemon."""
    try:
        import pynvml  # noqa: PLC0415
    except ImportError as error:
        raise DriverAbsentError(
            f"NVIDIA's Python binding cannot be imported ({error}): install nvidia-ml-py"
        ) from error
    module: types.ModuleType = pynvml
    lacking = [name for name in REQUIRED if not hasattr(module, name)]
    if lacking:
        raise DriverAbsentError(
            f"{getattr(module, '__file__', 'pynvml')} lacks {lacking[0]}: it is not NVIDIA's binding, but "
            "most likely the old PyPI package `pynvml` in its place; uninstall pynvml, then install "
            "nvidia-ml-py again"
        )
    return module


def _failed(index: int, info: DeviceInfo | None, error: DriverError) -> DeviceState:
    return DeviceState(
        index=index,
        info=info,
        reading=None,
        error=str(error),
        error_code=error.code,
        is_lost=isinstance(error, GpuLostError),
    )


def _bus_id(answer: Any) -> str:
    return as_text(answer.busId).upper()


def _cuda_version(answer: int) -> str:
    """12040 is 12.4."""
    return f"{answer // 1000}.{answer % 1000 // 10}"
