"""Versions as numbers: drivers, CUDA, kernels and packages compared the way people mean it.

Text order calls 6.10 older than 6.9 and 535.54.03 newer than 535.154.05; each of these has sent work to a
host that could not run it.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Final

Version = tuple[int, ...]
"""Leading numbers of a version; missing ones count as zero in comparisons."""

# Six parts of nine digits: more than any known scheme has, and bounded against hostile text.
_LEADING: Final = re.compile(r"\s*[vV]?(\d{1,9}(?:\.\d{1,9}){0,5})(?![\d])")


def parse(text: str) -> Version | None:
    """Return the dotted numbers that ``text`` starts with, or None if it starts with none.

    Whatever follows them (``-18-amd64``, ``~rc1``, ``-1``) is a packager's or vendor's own and not compared.
    """
    match = _LEADING.match(text)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def compare(left: Version, right: Version) -> int:
    """Return -1, 0 or 1: ``left`` is older, equal or newer; 12.2 equals 12.2.0."""
    for mine, yours in zip_longest(left, right, fillvalue=0):
        if mine != yours:
            return -1 if mine < yours else 1
    return 0


def is_same_branch(left: Version, right: Version, num_parts: int) -> bool:
    """Say whether the first ``num_parts`` numbers agree: 535.183.01 and 535.154.05 are one branch."""
    return compare(left[:num_parts], right[:num_parts]) == 0


def is_at_least(found: str | None, wanted: str) -> bool | None:
    """Tell whether ``found`` is ``wanted`` or newer; None when either cannot be read."""
    have, need = parse(found) if found else None, parse(wanted)
    return None if have is None or need is None else compare(have, need) >= 0
