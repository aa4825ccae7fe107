"""The NVML driver: the only module that knows NVIDIA's library and its Python binding.

What a card cannot say is remembered and not asked again; what it is, is read once a session; what one card
does never hides another. Every call is announced before it is made, so that a watcher outside this process
can tell in which one the driver is stuck.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gpumesh.errors import DriverAbsentError, DriverError, GpuLostError, NotSupportedError
from gpumesh.health import nvml_errors
from gpumesh.health.devices import DeviceInfo, DeviceState, DriverInfo, Process, Reading
from gpumesh.health.nvml_table import (
    FIELD_MEMBERS,
    FIELDS,
    IDENTITY,
    IDENTITY_FIELDS,
    PROCESS_CALLS,
    READING,
    REQUIRED,
    UNKNOWN_PERFORMANCE_STATE,
    Call,
    Fields,
    as_text,
)
from gpumesh.health.plausible import keep_plausible, keep_plausible_memory

MAX_PROCESSES: Final = 512
"""Processes kept of one card."""
_MAX_NAME_BYTES: Final = 64
_MAX_KNOWN: Final = 256


@dataclass(slots=True)
class _Card:
    """One card in this session."""

    index: int
    handle: Any
    known: _Known
    error: DriverError | None = None
    num_dropped: int = 0


@dataclass(slots=True)
class _Known:
    """What this session has learnt of one card, by its UUID."""

    unsupported: set[tuple[object, ...]] = field(default_factory=set)
    info: DeviceInfo | None = None
    num_dropped: int = 0
    mig_enabled: bool | None = None


class NvmlDriver:
    """The :class:`~gpumesh.health.devices.Driver` that speaks NVML.

    ``root`` is where /proc and /sys are read; ``announce`` is told each call before it is made, such as
    ``nvmlDeviceGetTemperature on gpu 1``.
    """

    def __init__(self, *, root: Path = Path("/"), announce: Callable[[str], None] = lambda _: None) -> None:
        self._root = root
        self._announce = announce
        self._nvml: Any = None
        self._known: dict[str, _Known] = {}
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
        self._nvml = nvml
        self._known = {}
        return DriverInfo(
            driver_version=self._ask_driver("nvmlSystemGetDriverVersion", as_text),
            library_version=self._ask_driver("nvmlSystemGetNVMLVersion", as_text),
            cuda_version=self._ask_driver("nvmlSystemGetCudaDriverVersion", _cuda_version),
        )

    def close(self) -> None:
        """Let go of the driver."""
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            self._announce("nvmlShutdown")
            with suppress(nvml.NVMLError):
                nvml.nvmlShutdown()

    def count(self) -> int:
        """Return how many cards the driver sees now. Errors: DriverError."""
        self._announce("nvmlDeviceGetCount")
        try:
            num_devices = int(self._nvml.nvmlDeviceGetCount())
        except self._nvml.NVMLError as error:
            raise nvml_errors.of_driver(error.value, "nvmlDeviceGetCount", self._root) from error
        if self._num_devices not in {None, num_devices}:
            # Indices may mean other cards now: one without a handle can no longer be named by its index.
            self._last = {}
        self._num_devices = num_devices
        return num_devices

    def probe_device(self, index: int) -> DeviceState:
        """Look at one card; what it refuses stands in the state."""
        try:
            card, uuid = self._attach(index)
        except DriverError as error:
            return _failed(index, self._last.get(index), error)
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

    def _attach(self, index: int) -> tuple[_Card, str]:
        """Return the card now at ``index``: handle and UUID are asked each time, as indices can shift."""
        handle = self._call_card("nvmlDeviceGetHandleByIndex", index, index, is_handle=True)
        try:
            uuid = as_text(self._call_card("nvmlDeviceGetUUID", index, handle))
        except ValueError as error:
            raise DriverError("the card's UUID is no text", call="nvmlDeviceGetUUID") from error
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        return _Card(index, handle, self._known.setdefault(uuid, _Known())), uuid

    def _identity(self, card: _Card, uuid: str) -> DeviceInfo:
        if card.known.info is not None:
            return replace(card.known.info, index=card.index)
        values = {call.field: self._ask(card, call) for call in IDENTITY}
        values |= self._fields(card, IDENTITY_FIELDS)
        name = self._ask(card, Call("name", ("nvmlDeviceGetName",), convert=as_text))
        address = self._ask(card, Call("pci", ("nvmlDeviceGetPciInfo",), convert=_bus_id))
        memory = self._memory(card)
        info, card.known.num_dropped = keep_plausible(
            DeviceInfo(
                index=card.index,
                uuid=uuid,
                name=name or "unknown GPU",
                pci_bus_id=address or "",
                memory_total_bytes=memory.get("total"),
                **values,
            )
        )
        if card.error is None:
            card.known.info = info
        return info

    def _reading(self, card: _Card, info: DeviceInfo) -> Reading:
        values: dict[str, Any] = {call.field: self._ask(card, call) for call in READING}
        if values["mig_enabled"] != card.known.mig_enabled:
            # With MIG on or off a card supports other things.
            card.known.unsupported.clear()
            card.known.mig_enabled = values["mig_enabled"]
        if values["performance_state"] == UNKNOWN_PERFORMANCE_STATE:
            values["performance_state"] = None
        values |= self._fields(card, FIELDS)
        values |= self._utilization(card)
        values |= self._remapped(card)
        memory = self._memory(card)
        reading, num_dropped = keep_plausible(
            Reading(
                **values,
                memory_used_bytes=memory.get("used"),
                memory_free_bytes=memory.get("free"),
                memory_reserved_bytes=memory.get("reserved"),
                processes=self._processes(card),
            )
        )
        card.num_dropped += num_dropped
        reading, num_dropped = keep_plausible_memory(reading, info.memory_total_bytes)
        card.num_dropped += num_dropped
        return reading

    def _fields(self, card: _Card, fields: Fields) -> dict[str, Any]:
        """Read field values in one batch; each carries a return code of its own."""
        wanted = [number for number in fields if ("field", number) not in card.known.unsupported]
        if not wanted:
            return {}
        answers = self._ask(card, Call("fields", ("nvmlDeviceGetFieldValues",)), wanted)
        values: dict[str, Any] = {}
        for number, answer in zip(wanted, answers or (), strict=False):
            name, convert = fields[number]
            if answer.nvmlReturn == 0 and 0 <= answer.valueType < len(FIELD_MEMBERS):
                values[name] = convert(getattr(answer.value, FIELD_MEMBERS[answer.valueType]))
            elif answer.nvmlReturn != 0:
                self._note_field(card, number, answer.nvmlReturn)
        return values

    def _note_field(self, card: _Card, number: int, code: int) -> None:
        if code == nvml_errors.INVALID_ARGUMENT:
            # A driver that is older than the field says so.
            code = nvml_errors.NOT_SUPPORTED
        error = nvml_errors.of_card(code, f"nvmlDeviceGetFieldValues, field {number}")
        if isinstance(error, GpuLostError):
            raise error
        if isinstance(error, NotSupportedError):
            card.known.unsupported.add(("field", number))
        elif code not in nvml_errors.ABSENT_THIS_TIME:
            card.error = card.error or error

    def _utilization(self, card: _Card) -> dict[str, Any]:
        answer = self._ask(card, Call("utilization", ("nvmlDeviceGetUtilizationRates",)))
        if answer is None:
            return {}
        return {"utilization_gpu_percent": answer.gpu, "utilization_memory_percent": answer.memory}

    def _remapped(self, card: _Card) -> dict[str, Any]:
        answer = self._ask(card, Call("remapped", ("nvmlDeviceGetRemappedRows",)))
        if answer is None:
            return {}
        correctable, uncorrectable, is_pending, has_failed = answer
        return {
            "remapped_correctable": correctable,
            "remapped_uncorrectable": uncorrectable,
            "remap_pending": bool(is_pending),
            "remap_failed": bool(has_failed),
        }

    def _memory(self, card: _Card) -> dict[str, int]:
        """Return total, used, free and, where the driver tells it apart (510 and later), reserved bytes.

        The first form counts what the driver reserves as used (gpustat#141: idle, yet 308 MB used).
        """
        call = Call("memory", ("nvmlDeviceGetMemoryInfo",))
        answer = self._ask(card, call, self._nvml.nvmlMemory_v2)
        if answer is not None:
            return {name: int(getattr(answer, name)) for name in ("total", "used", "free", "reserved")}
        answer = self._ask(card, call)
        return (
            {} if answer is None else {name: int(getattr(answer, name)) for name in ("total", "used", "free")}
        )

    def _processes(self, card: _Card) -> tuple[Process, ...] | None:
        found: dict[int, Process] = {}
        is_listed = False
        for kind, functions in PROCESS_CALLS:
            answer = self._ask(card, Call(kind, functions))
            is_listed = is_listed or answer is not None
            for item in (answer or ())[:MAX_PROCESSES]:
                pid = int(item.pid)
                earlier = found.get(pid)
                memory_bytes = None if item.usedGpuMemory is None else int(item.usedGpuMemory)
                found[pid] = Process(
                    pid=pid,
                    kind=kind if earlier is None else "compute+graphics",
                    memory_bytes=memory_bytes
                    if earlier is None
                    else _larger(earlier.memory_bytes, memory_bytes),
                    name=self._process_name(pid) if earlier is None else earlier.name,
                )
        return tuple(found.values()) if is_listed else None

    def _process_name(self, pid: int) -> str | None:
        with suppress(OSError), (self._root / f"proc/{pid}/comm").open("rb") as file:
            return file.read(_MAX_NAME_BYTES).decode(errors="replace").strip() or None
        return None

    def _ask(self, card: _Card, call: Call, *extra: Any) -> Any:
        """Return a value of a card; None where it is not supported or cannot be had now.

        Errors: GpuLostError. Any other error is kept with the card, and the value is absent.
        """
        for function in call.functions:
            key = (function, call.arguments, *(item for item in extra if isinstance(item, int)))
            if key in card.known.unsupported:
                continue
            try:
                return call.convert(
                    self._call_card(function, card.index, card.handle, *call.arguments, *extra)
                )
            except NotSupportedError:
                card.known.unsupported.add(key)
            except GpuLostError:
                raise
            except DriverError as error:
                if error.code not in nvml_errors.ABSENT_THIS_TIME:
                    card.error = card.error or error
                return None
            except (ValueError, TypeError, LookupError):
                # Text that is no text, a structure with a part missing: the answer is absurd.
                card.num_dropped += 1
                return None
        return None

    def _call_card(self, function: str, index: int, *arguments: Any, is_handle: bool = False) -> Any:
        call = f"{function} on gpu {index}"
        self._announce(call)
        ask = getattr(self._nvml, function, None)
        if ask is None:
            raise nvml_errors.of_card(nvml_errors.FUNCTION_NOT_FOUND, call)
        try:
            return ask(*arguments)
        except self._nvml.NVMLError as error:
            raise nvml_errors.of_card(error.value, call, is_handle=is_handle) from error

    def _ask_driver(self, function: str, convert: Callable[[Any], str]) -> str | None:
        self._announce(function)
        try:
            return convert(getattr(self._nvml, function)())
        except (self._nvml.NVMLError, AttributeError, ValueError):
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


def _larger(*values: int | None) -> int | None:
    known: Iterable[int] = [value for value in values if value is not None]
    return max(known, default=None)
