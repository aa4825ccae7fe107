from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.cli.table import Cell, Column, Row, draw
from gpumesh.cli.terminal import Terminal, clean, display_width, shorten


def drawn(columns: list[Column], rows: list[list[str]], width: int | None = None) -> list[str]:
    out = io.StringIO()
    table = [Row(tuple(Cell(text) for text in row)) for row in rows]
    draw(Terminal(out, out, width, False), columns, table)
    return out.getvalue().splitlines()


def test_columns_line_up_and_numbers_stand_right() -> None:
    lines = drawn(
        [Column("A"), Column("N", is_right=True), Column("B")], [["x", "1", "y"], ["long", "100", "z"]]
    )
    assert lines == ["A       N  B", "x       1  y", "long  100  z"]


def test_a_column_that_says_nothing_is_left_out() -> None:
    assert drawn([Column("A"), Column("B"), Column("C")], [["x", "", "z"]]) == ["A  C", "x  z"]


def test_a_narrow_terminal_drops_the_least_needed_first_then_shortens() -> None:
    columns = [Column("A"), Column("B", drop=1), Column("C", drop=2)]
    row = [["a" * 12, "b" * 12, "c" * 12]]
    assert drawn(columns, row, 30)[1] == "a" * 12 + "  " + "b" * 12
    assert drawn(columns, row, 15)[1] == "a" * 12
    assert drawn(columns, row, 10)[1] == "a" * 9 + "…"


def test_wide_characters_take_two_columns() -> None:
    lines = drawn([Column("A"), Column("B")], [["网吧", "x"], ["pc", "y"]])
    assert lines[1:] == ["网吧  x", "pc    y"]


def test_no_rows_are_no_table() -> None:
    assert drawn([Column("A")], []) == []


@given(st.text(max_size=40), st.integers(min_value=1, max_value=40))
def test_shortened_text_fits(text: str, width: int) -> None:
    assert display_width(shorten(clean(text), width)) <= width


@pytest.mark.parametrize("text", ["\x1b[31m", "a\nb", "a\tb", "\u202eb", "\x9b1m"])
def test_what_steers_a_terminal_is_replaced(text: str) -> None:
    assert clean(text).isprintable()
