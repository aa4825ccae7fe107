from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.versions import compare, is_at_least, is_same_branch, parse


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("535.154.05", (535, 154, 5)),
        ("6.1.0-18-amd64", (6, 1, 0)),
        ("7.0.12-201.fc44.x86_64", (7, 0, 12)),
        ("5.15.0-185-generic", (5, 15, 0)),
        ("6.6.87.2-microsoft-standard-WSL2", (6, 6, 87, 2)),
        ("1.14.3-1", (1, 14, 3)),
        ("v1.17.4-rc.1", (1, 17, 4)),
        ("12.2", (12, 2)),
        ("6.12~rc3", (6, 12)),
        ("not a version", None),
        ("", None),
        ("1" * 5000, None),
    ],
)
def test_a_version_is_its_leading_numbers(text: str, version: tuple[int, ...] | None) -> None:
    assert parse(text) == version


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("535.54.03", "535.154.05", -1),
        ("6.10", "6.9", 1),
        ("12.2", "12.2.0", 0),
        ("535.154.05", "535.154.5", 0),
        ("1.9.0", "1.14.3", -1),
    ],
)
def test_versions_compare_as_numbers_not_as_text(left: str, right: str, expected: int) -> None:
    mine, yours = parse(left), parse(right)
    assert mine is not None
    assert yours is not None
    assert compare(mine, yours) == expected
    assert compare(yours, mine) == -expected


def test_a_branch_is_its_leading_parts() -> None:
    assert is_same_branch((535, 183, 1), (535, 154, 5), 1)
    assert not is_same_branch((545, 29), (535, 154, 5), 1)
    assert not is_same_branch((6, 10), (6, 1), 2)


@pytest.mark.parametrize(
    ("found", "wanted", "answer"),
    [
        ("535.154.05", "535.54.3", True),
        ("535.54.3", "535.154.05", False),
        ("12.4", "12.4.0", True),
        ("12.10", "12.9", True),
        ("8.9", "9.0", False),
        ("550.54.14-open", "550.54.14", True),
        (None, "12.4", None),
        ("unknown", "12.4", None),
        ("12.4", "new", None),
    ],
)
def test_versions_compare_as_numbers(found: str | None, wanted: str, answer: bool | None) -> None:
    assert is_at_least(found, wanted) is answer


@given(st.text(max_size=60))
def test_any_text_is_a_version_or_none(text: str) -> None:
    version = parse(text)
    assert version is None or all(isinstance(number, int) for number in version)
