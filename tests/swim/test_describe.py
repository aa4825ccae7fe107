from __future__ import annotations

from pathlib import Path

import pytest

from gpumesh.swim.describe import PARTS, main, redraw, transitions
from gpumesh.swim.statement import TRANSITIONS

PAGE = Path(__file__).parents[2] / "docs" / "membership.md"


def test_the_page_shows_what_the_code_does() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == redraw(page), "docs/membership.md is stale: run `make golden-update`"
    assert all(f"<!-- drawn: {name} -->" in page for name in PARTS)


def test_every_transition_stands_in_the_table() -> None:
    cells = [cell.strip() for line in transitions().splitlines() for cell in line.split("|")]
    assert sorted(cell for cell in cells if cell in TRANSITIONS.values()) == sorted(TRANSITIONS.values())


def test_a_stale_page_is_drawn_anew_and_the_rest_is_kept(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- drawn: transitions -->\nstale\n<!-- end -->\nafter\n", encoding="utf-8")
    assert main([str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert transitions() in text


def test_an_unknown_part_is_an_error() -> None:
    with pytest.raises(KeyError):
        redraw("<!-- drawn: weather -->\n<!-- end -->\n")


def test_usage_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
