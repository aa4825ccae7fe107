from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.placement.versions import is_at_least, parse_version


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
    version = parse_version(text)
    assert version is None or all(isinstance(number, int) for number in version)
