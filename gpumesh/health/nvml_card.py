"""Asking one card: what it does not support is remembered, what fails costs that value alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpumesh.errors import DriverError, GpuLostError, NotSupportedError
from gpumesh.health import nvml_errors
from gpumesh.health.devices import DeviceInfo, MigInstance
from gpumesh.health.nvml_table import FIELD_MEMBERS, Call, FieldKey, Fields


@dataclass(frozen=True, slots=True)
class Session:
    """One session of the driver: NVIDIA's binding, and who is told each call before it is made."""

    nvml: Any
    announce: Callable[[str], None]

    def call(self, function: str, index: int, *arguments: Any, is_handle: bool = False) -> Any:
        """Make one call about a card. Errors: DriverError and its kinds, see :mod:`nvml_errors`."""
        call = f"{function} on gpu {index}"
        self.announce(call)
        ask = getattr(self.nvml, function, None)
        if ask is None:
            raise nvml_errors.of_card(nvml_errors.FUNCTION_NOT_FOUND, call)
        try:
            return ask(*arguments)
        except self.nvml.NVMLError as error:
            raise nvml_errors.of_card(error.value, call, is_handle=is_handle) from error


@dataclass(slots=True)
class Known:
    """What a session has learnt of one card, by its UUID."""

    unsupported: set[tuple[object, ...]] = field(default_factory=set)
    info: DeviceInfo | None = None
    num_dropped: int = 0
    mig_enabled: bool | None = None
    num_looks: int = 0
    seldom: dict[str, Any] = field(default_factory=dict)
    """What is read once in a while, as it was read last."""
    mig_layout: tuple[tuple[Any, MigInstance], ...] | None = None


@dataclass(slots=True)
class Card:
    """One card in one look."""

    session: Session
    index: int
    handle: Any
    known: Known
    error: DriverError | None = None
    """The first call that failed in this look."""
    num_dropped: int = 0

    def ask(self, call: Call, *extra: Any) -> Any:
        """Return a value; None where it is not supported or cannot be had now.

        Errors: GpuLostError. Any other error is kept with the card, and the value is absent.
        """
        for function in call.functions:
            key = (function, call.arguments, *(item for item in extra if isinstance(item, int)))
            if key in self.known.unsupported:
                continue
            try:
                arguments = (self.handle, *call.arguments, *extra)
                return call.convert(self.session.call(function, self.index, *arguments))
            except NotSupportedError:
                self.known.unsupported.add(key)
            except GpuLostError:
                raise
            except DriverError as error:
                self._note(error)
                return None
            except (ValueError, TypeError, LookupError):
                # Text that is no text, a structure with a part missing: the answer is absurd.
                self.num_dropped += 1
                return None
        return None

    def fields(self, fields: Fields) -> dict[str, Any]:
        """Read field values in one batch; each carries a return code of its own. Errors: GpuLostError."""
        wanted = [number for number in fields if ("field", number) not in self.known.unsupported]
        if not wanted:
            return {}
        answers = self.ask(Call("fields", ("nvmlDeviceGetFieldValues",)), wanted)
        values: dict[str, Any] = {}
        for number, answer in zip(wanted, answers or (), strict=False):
            name, convert = fields[number]
            if answer.nvmlReturn != 0:
                self._note_field(number, answer.nvmlReturn)
            elif (value := _member(answer)) is not None:
                values[name] = convert(value)
        return values

    def _note_field(self, number: FieldKey, code: int) -> None:
        if code == nvml_errors.INVALID_ARGUMENT:
            # A driver that is older than the field says so.
            code = nvml_errors.NOT_SUPPORTED
        error = nvml_errors.of_card(code, f"nvmlDeviceGetFieldValues, field {number}")
        if isinstance(error, GpuLostError):
            raise error
        if isinstance(error, NotSupportedError):
            self.known.unsupported.add(("field", number))
        else:
            self._note(error)

    def _note(self, error: DriverError) -> None:
        if error.code not in nvml_errors.ABSENT_THIS_TIME:
            self.error = self.error or error


def _member(answer: Any) -> Any:
    """Return a field's value; None for a type that this binding is too old for."""
    if not 0 <= answer.valueType < len(FIELD_MEMBERS):
        return None
    return getattr(answer.value, FIELD_MEMBERS[answer.valueType], None)
