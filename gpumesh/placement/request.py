"""Reading a request from query parameters or flags; whatever is wrong is refused by the field's name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from gpumesh.errors import RequestError, did_you_mean
from gpumesh.model import Request

FIELDS: Final = (
    "key",
    "gpus",
    "memory",
    "model",
    "capability",
    "driver",
    "cuda",
    "label",
    "anti_affinity",
    "allow_degraded",
)
"""The parameters, as they stand in a query; ``label`` and ``anti_affinity`` may be given several times."""

MAX_KEY: Final = 256
MAX_TEXT: Final = 255
MAX_GPUS: Final = 64
MAX_REPEATED: Final = 64
MAX_MEMORY_BYTES: Final = 1 << 50
_REPEATED: Final = ("label", "anti_affinity")
_MAX_PARAMETERS: Final = 256
_SIZE: Final = re.compile(r"([0-9]{1,16})(?:\.([0-9]{1,6}))?\s*([A-Za-z]+)")
_UNITS: Final = {
    "b": 1,
    "m": 10**6,
    "mb": 10**6,
    "mi": 1 << 20,
    "mib": 1 << 20,
    "g": 10**9,
    "gb": 10**9,
    "gi": 1 << 30,
    "gib": 1 << 30,
    "t": 10**12,
    "tb": 10**12,
    "ti": 1 << 40,
    "tib": 1 << 40,
}
_FLAGS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def parse_request(parameters: Iterable[tuple[str, str]]) -> Request:
    """Return the request that these parameters describe. Errors: RequestError, naming the field."""
    single, repeated = _collect(parameters)
    return Request(
        key=_key(single.get("key", "")),
        num_gpus=_gpus(single.get("gpus", "1")),
        memory_bytes=parse_memory(single["memory"]) if single.get("memory") else 0,
        model=_text("model", single.get("model", "")),
        capability=_version("capability", single.get("capability", "")),
        driver=_version("driver", single.get("driver", "")),
        cuda=_version("cuda", single.get("cuda", "")),
        labels=_labels(repeated["label"]),
        anti_affinity=tuple(_text("anti_affinity", item) for item in repeated["anti_affinity"]),
        allow_degraded=_flag("allow_degraded", single.get("allow_degraded", "true")),
    )


def parse_memory(text: str) -> int:
    """Return the bytes that ``20GiB``, ``16384MiB`` or ``16G`` (powers of ten) stand for.

    Errors: RequestError. A number without a unit is refused: it could mean bytes, MiB or GiB.
    """
    match = _SIZE.fullmatch(text.strip()) if len(text) <= MAX_TEXT else None
    unit = _UNITS.get(match[3].lower()) if match else None
    if match is None or unit is None:
        raise RequestError(f"memory: {text[:40]!r} is not a size; write a number and a unit, such as 20GiB")
    fraction = match[2] or ""
    size_bytes = int(match[1]) * unit + int(fraction or "0") * unit // int("1" + "0" * len(fraction))
    if size_bytes > MAX_MEMORY_BYTES:
        raise RequestError(f"memory: {text[:40]!r} is more than any GPU has; at most 1024TiB")
    return size_bytes


def _collect(parameters: Iterable[tuple[str, str]]) -> tuple[dict[str, str], dict[str, list[str]]]:
    single: dict[str, str] = {}
    repeated: dict[str, list[str]] = {name: [] for name in _REPEATED}
    for number, (given, value) in enumerate(parameters):
        name = given.replace("-", "_")
        if number >= _MAX_PARAMETERS:
            raise RequestError(f"more than {_MAX_PARAMETERS} parameters")
        if name in repeated:
            repeated[name].extend(part for part in value.split(",") if part)
            if len(repeated[name]) > MAX_REPEATED:
                raise RequestError(f"{name}: more than {MAX_REPEATED} given")
        elif name not in FIELDS:
            raise RequestError(f"{given[:40]}: unknown parameter; {_hint(name)}")
        elif name in single:
            raise RequestError(f"{name}: given twice")
        else:
            single[name] = value
    return single, repeated


def _hint(name: str) -> str:
    return did_you_mean(name, FIELDS, "known: " + ", ".join(FIELDS))


def _key(value: str) -> str:
    if not value:
        raise RequestError("key: is missing; give the work a name, such as key=train-42")
    if len(value) > MAX_KEY or not value.isprintable():
        raise RequestError(f"key: must be 1 to {MAX_KEY} printable characters")
    return value


def _gpus(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", value) or not 1 <= int(value) <= MAX_GPUS:
        raise RequestError(f"gpus: {value[:40]!r} must be a whole number from 1 to {MAX_GPUS}")
    return int(value)


def _text(field: str, value: str) -> str:
    if len(value) > MAX_TEXT or (value and not value.isprintable()):
        raise RequestError(f"{field}: must be at most {MAX_TEXT} printable characters")
    return value


def _version(field: str, value: str) -> str:
    if value and not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){0,7}", value):
        raise RequestError(f"{field}: {value[:40]!r} is not a version; write numbers and dots, such as 12.4")
    return value


def _labels(items: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for item in items:
        name, separator, value = _text("label", item).partition("=")
        if not separator or not name:
            raise RequestError(f"label: {item[:40]!r} must be written name=value")
        if labels.get(name, value) != value:
            raise RequestError(f"label: {name} is given with two values")
        labels[name] = value
    return labels


def _flag(field: str, value: str) -> bool:
    flag = _FLAGS.get(value.lower())
    if flag is None:
        raise RequestError(f"{field}: {value[:40]!r} must be true or false")
    return flag
