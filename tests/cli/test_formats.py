from __future__ import annotations

import pytest

from gpumesh.cli import formats

GIB = 1 << 30


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "never"),
        (0, "0 s ago"),
        (3.2, "3 s ago"),
        (119, "119 s ago"),
        (180, "3 min ago"),
        (10800, "3 h ago"),
    ],
)
def test_ages_read_as_people_say_them(seconds: float | None, text: str) -> None:
    assert formats.age(seconds) == text


def test_days_and_clocks_that_ran_back() -> None:
    assert formats.span(9 * 86400) == "9 d"
    assert formats.since("2027-01-15T08:00:10.000Z", 1_800_000_000.0) == "0 s"


def test_memory_that_is_not_known_is_a_dash_not_a_zero() -> None:
    assert formats.part_of(int(15.3 * GIB), 16 * GIB) == "15.3/16.0 GiB"
    assert formats.part_of(None, 16 * GIB) == "-/16.0 GiB"
    assert formats.part_of(None, None) == "-"
    assert formats.part_of(0, 16 * GIB) == "0.0/16.0 GiB"
    assert formats.amount(None, "W") == "-"
    assert formats.amount(0, "W") == "0 W"


def test_models_lose_what_all_share() -> None:
    assert formats.model("NVIDIA GeForce RTX 4080 SUPER") == "RTX 4080 SUPER"
    assert formats.model("NVIDIA H100 80GB HBM3") == "H100 80GB HBM3"
    assert formats.model("Tesla T4") == "Tesla T4"


def test_names_sort_as_people_count() -> None:
    assert sorted(["pc10", "pc9", "7a", "pc"], key=formats.natural) == ["7a", "pc", "pc9", "pc10"]
