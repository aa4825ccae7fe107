from __future__ import annotations

from pathlib import Path

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
