from __future__ import annotations

from gpumesh.errors import did_you_mean
from tests.samples.interpreter import loaded_by


def test_a_name_that_resembles_a_known_one_is_answered_with_that_one() -> None:
    assert did_you_mean("stauts", ["status", "fleet"], "none") == "did you mean status?"


def test_a_name_that_resembles_nothing_is_answered_otherwise() -> None:
    assert did_you_mean("xyz", ["status", "fleet"], "known: status, fleet") == "known: status, fleet"
    assert did_you_mean("", [], "nothing") == "nothing"


def test_a_name_of_a_million_letters_is_compared_by_its_head_only() -> None:
    assert did_you_mean("status" + "s" * 1_000_000, ["s" * 40], "none") == "did you mean " + "s" * 40 + "?"


def test_errors_are_loaded_without_what_only_a_wrong_name_needs() -> None:
    loaded = loaded_by("gpumesh.errors")
    assert "gpumesh.errors" in loaded
    assert "difflib" not in loaded
