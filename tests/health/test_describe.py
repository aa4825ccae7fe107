from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from gpumesh.config import HealthConfig
from gpumesh.health.checks import CHECKS
from gpumesh.health.describe import describe

PAGE = Path(__file__).parents[2] / "docs" / "health.md"


def test_the_page_says_what_the_checks_do() -> None:
    assert PAGE.read_text(encoding="utf-8") == describe(), "docs/health.md is stale: run `make golden-update`"


def test_every_rule_has_a_threshold_a_source_and_a_unique_name() -> None:
    rules = [rule for check in CHECKS for rule in check.rules]
    assert all(rule.threshold and rule.source for rule in rules)
    assert len({(rule.check, rule.code) for rule in rules}) == len(rules)
    assert all(rule.check == check.name for check in CHECKS for rule in check.rules)


def test_every_setting_is_gone_by_and_every_rule_goes_by_settings_that_there_are() -> None:
    """``clean_looks`` and ``recover_after`` are every rule's."""
    known = {item.metadata["setting"].key for item in fields(HealthConfig)}
    named = {key for check in CHECKS for rule in check.rules for key in rule.settings}
    assert named == known - {"clean_looks", "recover_after"}


def test_a_rule_names_the_key_of_each_threshold_that_is_the_sites_to_change() -> None:
    rows = [line for line in describe().splitlines() if line.startswith("| `stopped`")]
    (row,) = rows
    assert "| 0 % at 70 °C or more, for 1 min |" in row
    assert "| `fan_hot`, `fan_after` |" in row
