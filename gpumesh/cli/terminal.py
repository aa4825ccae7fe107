"""Where the command line writes: its width, whether it takes colour, and what may not reach it."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TextIO


class Tone(str, Enum):
    """How a piece of text is meant; the values are ANSI codes (ECMA-48, SGR)."""

    PLAIN = ""
    GOOD = "32"
    CALM = "34"
    WARN = "33"
    BAD = "31"
    STRONG = "1"
    SOFT = "2"


TONE_OF: Final[Mapping[str, Tone]] = {
    "ready": Tone.GOOD,
    "healthy": Tone.GOOD,
    "joining": Tone.CALM,
    "cooldown": Tone.CALM,
    "occupied": Tone.CALM,
    "off-hours": Tone.CALM,
    "cordoned": Tone.WARN,
    "draining": Tone.WARN,
    "degraded": Tone.WARN,
    "suspect": Tone.WARN,
    "unknown": Tone.WARN,
    "warning": Tone.WARN,
    "left": Tone.SOFT,
    "info": Tone.SOFT,
    "unhealthy": Tone.BAD,
    "critical": Tone.BAD,
    "isolated": Tone.BAD,
    "failed": Tone.BAD,
}
"""States, verdicts and severities as tones; other words are plain."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """One output; ``width`` None means that lines may be as long as they are (a pipe, a file)."""

    out: TextIO
    err: TextIO
    width: int | None
    has_color: bool

    @classmethod
    def of(cls, out: TextIO, err: TextIO, environ: Mapping[str, str], *, color: bool = True) -> Terminal:
        """Look at the streams: colours and a width only on a terminal, none with NO_COLOR or TERM=dumb."""
        is_terminal = out.isatty()
        has_color = color and is_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        return cls(out, err, shutil.get_terminal_size().columns if is_terminal else None, has_color)

    def resized(self) -> Terminal:
        """Return the terminal with the width that its window has now."""
        return replace(self, width=shutil.get_terminal_size().columns)

    def paint(self, text: str, tone: Tone) -> str:
        """Return the text in its tone, or as it is where colour is not taken."""
        return f"\x1b[{tone.value}m{text}\x1b[0m" if self.has_color and tone.value else text

    def write(self, line: str = "") -> None:
        """Write one line."""
        self.out.write(line + "\n")

    def complain(self, line: str) -> None:
        """Write one line where errors go."""
        self.err.write(f"gpumesh: {line}\n")
        self.err.flush()


def clean(text: str) -> str:
    """Return text that cannot steer a terminal: whatever is not printable becomes a question mark.

    Names and reasons come from other hosts.
    """
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def display_width(text: str) -> int:
    """Return how many columns the text takes: wide East Asian characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def shorten(text: str, width: int) -> str:
    """Return the text cut to ``width`` columns, ending in an ellipsis if it was longer."""
    if display_width(text) <= width:
        return text
    kept, used = "", 0
    for char in text:
        used += _char_width(char)
        if used > width - 1:
            break
        kept += char
    return kept + "…" if width > 0 else ""


def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
