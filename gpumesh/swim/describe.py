"""The parts of docs/membership.md drawn from the code: ``python -m gpumesh.swim.describe FILE``.

A part stands between ``<!-- drawn: NAME -->`` and ``<!-- end -->``; people write the rest of the page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

from gpumesh.model import Reachability
from gpumesh.swim.parameters import PROFILES, Parameters, suspicion_bounds
from gpumesh.swim.statement import TRANSITIONS

STATES: Final = (Reachability.ALIVE, Reachability.SUSPECT, Reachability.FAILED, Reachability.LEFT)
SIZES: Final = (2, 8, 32, 128, 1024, 4096)
_PART: Final = re.compile(r"(<!-- drawn: (?P<name>[a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def transitions() -> str:
    """Return the table of transitions within one epoch; a row for each state that a member is in."""
    rows = [("is \\ becomes", *(f"`{state}`" for state in STATES))]
    for before in (None, *STATES):
        name = "not known" if before is None else f"`{before}`"
        rows.append((name, *(TRANSITIONS.get((before, after), "-") for after in STATES)))
    return _table(rows)


def parameters() -> str:
    """Return every parameter with its value in each profile."""
    rows = [("parameter", *(f"`{profile}`" for profile in PROFILES))]
    for item in fields(Parameters):
        values = [getattr(profile, item.name) for profile in PROFILES.values()]
        rows.append((f"`{item.name}`", *map(_number, values)))
    return _table(rows)


def suspicions() -> str:
    """Return shortest and longest suspicion by the size of the fleet."""
    rows: list[Sequence[str]] = [("hosts", *(f"`{profile}`: shortest … longest, s" for profile in PROFILES))]
    for size in SIZES:
        bounds = [suspicion_bounds(profile, size) for profile in PROFILES.values()]
        rows.append((f"{size:,}", *(f"{shortest:.1f} … {longest:.0f}" for shortest, longest in bounds)))
    return _table(rows)


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "transitions": transitions,
    "parameters": parameters,
    "suspicions": suspicions,
}


def redraw(page: str) -> str:
    """Return the page with each drawn part as the code has it now. Raises KeyError for an unknown part."""
    return _PART.sub(lambda found: found[1] + PARTS[found["name"]]() + found[3], page)


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|---" * len(rows[0]) + "|")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def main(arguments: Sequence[str]) -> int:
    """Draw the parts of one page anew."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m gpumesh.swim.describe docs/membership.md\n")
        return 2
    page = Path(arguments[0])
    page.write_text(redraw(page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
