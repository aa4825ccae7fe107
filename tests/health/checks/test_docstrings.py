"""A check's file says by itself what it goes by: each threshold with its source, as the rules have it."""

from __future__ import annotations

import re
import textwrap
from typing import Final

import pytest

from gpumesh.health.checks import CHECKS
from gpumesh.health.describe import describe, threshold_of
from gpumesh.health.rules import THRESHOLDS, Check, Rule, about

WIDTH: Final = 110
FACTS: Final = {
    "driver/no-library": "NVML's return code",
    "driver/not-loaded": "NVML's return code",
    "driver/no-permission": "NVML's return code",
    "driver-library/mismatch": "NVML's return code",
    "inventory/lost": "NVML's return codes",
    "answer/reset-required": "NVML's return code",
    "answer/no-permission": "NVML's return code",
    "recovery-action/reset": "what NVML's field 230 says",
    "recovery-action/reboot": "what NVML's field 230 says",
    "recovery-action/drain": "what NVML's field 230 says",
    "xid/recovery": "an Xid",
}
"""Rules whose numbers are other people's names for things, so that there is nothing for a site to change."""
_NUMBER: Final = re.compile(r"\d|\b(half|twice|second|minute|hour|day|week)\b")
_OTHER_SECTION: Final = re.compile(r"\b(gpu|baseline)\.[a-z_]+\b")

by_name = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)


def stated(rule: Rule) -> str:
    keys = ", ".join(f"``{key}``" for key in rule.settings)
    named = f" Keys: {keys}." if keys else ""
    return f"- ``{rule.code}``: {threshold_of(rule)}.{named} Source: {rule.source}."


def block(check: Check) -> str:
    """Return what must stand at the end of the docstring."""
    items = [textwrap.fill(stated(rule), WIDTH, subsequent_indent="  ") for rule in check.rules]
    return "\n".join([THRESHOLDS, "", *items])


@by_name
def test_a_docstring_states_each_rules_threshold_and_source(check: Check) -> None:
    before, heading, after = check.docstring.partition(f"\n{THRESHOLDS}\n")
    wanted = block(check)
    assert " ".join((heading + after).split()) == " ".join(wanted.split()), (
        f"the docstring of {check.name} must end with:\n\n{wanted}\n"
    )
    assert before.endswith("\n"), "an empty line stands before the block"
    assert THRESHOLDS not in before


@by_name
def test_what_a_check_is_about_stands_before_its_thresholds(check: Check) -> None:
    told = about(check)
    assert len(told) > 60, "what it looks for and what it leaves alone"
    assert check.docstring.startswith(told)
    assert THRESHOLDS not in told
    assert "Source:" not in told


def test_the_page_does_not_say_thresholds_twice() -> None:
    page = describe()
    assert THRESHOLDS not in page
    assert "Source:" not in page


@pytest.mark.parametrize(
    "rule", [rule for check in CHECKS for rule in check.rules], ids=lambda rule: f"{rule.check}/{rule.code}"
)
def test_a_number_in_a_threshold_is_the_sites_to_change_or_a_fact(rule: Rule) -> None:
    has_key = bool(rule.settings) or _OTHER_SECTION.search(rule.threshold) is not None
    is_fact = f"{rule.check}/{rule.code}" in FACTS
    has_number = _NUMBER.search(threshold_of(rule)) is not None
    assert not has_number or has_key or is_fact, f"{threshold_of(rule)!r}: name its key of [health]"
    assert not is_fact or (has_number and not has_key), "no such fact"
