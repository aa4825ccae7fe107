"""Dotted versions compared as numbers: 535.154.05 is newer than 535.54.3, and 12.4 equals 12.4.0."""

from __future__ import annotations

import re
from typing import Final

_VERSION: Final = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9}){0,7})")


def parse_version(text: str | None) -> tuple[int, ...] | None:
    """Return the numbers that the text begins with, trailing zeros left off; None where there are none."""
    match = _VERSION.match(text) if text else None
    if match is None:
        return None
    numbers = [int(part) for part in match[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def is_at_least(found: str | None, wanted: str) -> bool | None:
    """Tell whether ``found`` is ``wanted`` or newer; None when either cannot be read."""
    have, need = parse_version(found), parse_version(wanted)
    return None if have is None or need is None else have >= need
