"""Tables: aligned columns, one line a row, made to fit a narrow terminal by leaving columns out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpumesh.cli.terminal import Terminal, Tone, clean, display_width, shorten

_GAP: Final = "  "
_LEAST_WIDTH: Final = 8


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    title: str
    is_right: bool = False
    """Numbers stand to the right."""
    drop: int = 0
    """In a narrow terminal the columns with the highest number go first; 0 never goes."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table, and lines of free text under it."""

    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()
    """Already laid out; written as they are."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where one column that is shown stands."""

    index: int
    width: int
    is_right: bool


def draw(terminal: Terminal, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Write the table; a column in which no row says anything is left out, and so is a table without rows."""
    if not rows:
        return
    texts = [[clean(cell.text) for cell in row.cells] for row in rows]
    shown = [i for i in range(len(columns)) if any(line[i] for line in texts)]
    widths = {i: max(display_width(columns[i].title), *(display_width(t[i]) for t in texts)) for i in shown}
    shown = _fit(shown, columns, widths, terminal.width)
    slots = [_Slot(i, widths[i], columns[i].is_right) for i in shown]
    head = [column.title for column in columns]
    terminal.write(_line(terminal, [Cell(title, Tone.SOFT) for title in head], head, slots))
    for row, line in zip(rows, texts, strict=True):
        terminal.write(_line(terminal, row.cells, line, slots))
        for note in row.notes:
            terminal.write(note)


def _fit(shown: list[int], columns: Sequence[Column], widths: dict[int, int], limit: int | None) -> list[int]:
    """Return the columns that stay, and narrow the widest of them in ``widths`` if that is not enough."""

    def excess() -> int:
        taken = sum(widths[i] for i in shown) + len(_GAP) * (len(shown) - 1)
        return 0 if limit is None else taken - limit

    while excess() > 0 and any(columns[i].drop for i in shown):
        gone = max(shown, key=lambda i: (columns[i].drop, i))
        shown = [i for i in shown if i != gone]
    while excess() > 0:
        widest = max(shown, key=lambda i: widths[i])
        if widths[widest] <= _LEAST_WIDTH:
            break
        widths[widest] = max(_LEAST_WIDTH, widths[widest] - excess())
    return shown


def _line(terminal: Terminal, cells: Sequence[Cell], texts: Sequence[str], slots: Sequence[_Slot]) -> str:
    parts = []
    for slot in slots:
        text = shorten(texts[slot.index], slot.width)
        pad = " " * (slot.width - display_width(text))
        if slot is slots[-1] and not slot.is_right:
            pad = ""
        painted = terminal.paint(text, cells[slot.index].tone)
        parts.append(pad + painted if slot.is_right else painted + pad)
    return _GAP.join(parts).rstrip()
