"""Numbers and instants as people read them; what is not known is a dash, never a zero."""

from __future__ import annotations

import re
import textwrap
from datetime import datetime
from typing import Any, Final

from gpumesh.cli.terminal import clean

Document = dict[str, Any]
UNKNOWN: Final = "-"
_GIB: Final = 1 << 30
_STEPS: Final = ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172800.0, 3600.0, "h"))
_DAY_S: Final = 86400.0
_VENDOR: Final = re.compile(r"^(NVIDIA )?(GeForce )?")


def span(seconds: float | None) -> str:
    """Return ``45 s``, ``12 min``, ``3 h`` or ``9 d``."""
    if seconds is None:
        return UNKNOWN
    for limit, unit_s, name in _STEPS:
        if seconds < limit:
            return f"{max(0.0, seconds) / unit_s:.0f} {name}"
    return f"{seconds / _DAY_S:.0f} d"


def age(seconds: float | None) -> str:
    """Return ``3 s ago``, or ``never`` for what has not been seen."""
    return "never" if seconds is None else f"{span(seconds)} ago"


def unix_of(instant: str | None) -> float | None:
    """Return the Unix seconds of an ISO 8601 instant as the daemon writes them."""
    return datetime.fromisoformat(instant.replace("Z", "+00:00")).timestamp() if instant else None


def since(instant: str | None, now: float) -> str:
    """Return how long an instant is ago as of ``now``, Unix seconds."""
    at = unix_of(instant)
    return UNKNOWN if at is None else span(now - at)


def gib(num_bytes: int | None) -> str:
    """Return ``16.0``."""
    return UNKNOWN if num_bytes is None else f"{num_bytes / _GIB:.1f}"


def part_of(part: int | None, whole: int | None) -> str:
    """Return ``15.3/16.0 GiB``; a dash if neither is known."""
    return UNKNOWN if part is None and whole is None else f"{gib(part)}/{gib(whole)} GiB"


def amount(value: float | None, unit: str) -> str:
    """Return ``45 °C``."""
    return UNKNOWN if value is None else f"{value:.0f} {unit}"


def model(name: str) -> str:
    """Return the model without the vendor's names that all share."""
    return _VENDOR.sub("", clean(name)) or UNKNOWN


def plural(number: int, noun: str) -> str:
    """Return ``1 host`` or ``3 hosts``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key by which pc2 comes before pc10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name.lower())
    return tuple((0, int(part), "") if part[0].isdecimal() else (1, 0, part) for part in parts)


def wrap(text: str, width: int | None, indent: str, hanging: str = "") -> list[str]:
    """Return the text in lines of at most ``width`` columns, each behind ``indent``."""
    if width is None:
        return [indent + clean(text)]
    room = max(width, len(indent) + 20)
    return textwrap.wrap(clean(text), room, initial_indent=indent, subsequent_indent=hanging or indent)
