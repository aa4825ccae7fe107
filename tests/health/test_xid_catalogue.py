from __future__ import annotations

import re

import pytest

from gpumesh.health.checks.xid import CHECK
from gpumesh.health.xid_catalogue import CATALOGUE, Calls, kind_of


@pytest.mark.parametrize(
    ("xids", "calls"),
    [
        ((8, 13, 31, 32, 43, 45, 68, 69), Calls.APPLICATION),
        ((38, 44, 63, 92), Calls.NOTE),
        ((94,), Calls.CONTAINED),
        ((46, 62, 95, 109, 119, 120, 140, 143, 158), Calls.RESET),
        ((48, 74, *range(144, 151)), Calls.HARDWARE),
        ((64,), Calls.REPLACE),
        ((79,), Calls.REBOOT),
        ((54,), Calls.CABLES),
        ((61,), Calls.REPORT),
        ((154,), Calls.RECOVERY),
    ],
)
def test_each_xid_calls_for_what_nvidias_catalogue_says(xids: tuple[int, ...], calls: Calls) -> None:
    assert {kind_of(xid).calls for xid in xids} == {calls}
    assert {xid for xid, kind in CATALOGUE.items() if kind.calls is calls} == set(xids)


def test_an_xid_that_is_not_in_the_table_is_unknown_and_a_silent_fall_needs_a_reboot() -> None:
    assert kind_of(9999).calls is Calls.UNKNOWN
    assert kind_of(None).calls is Calls.REBOOT


def named_in(threshold: str) -> set[int]:
    """Return the Xids that a threshold names; ``144 to 150`` names each of them."""
    found: set[int] = set()
    for first, last in re.findall(r"(?<![{\w])(\d+)(?: to (\d+))?", threshold):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def test_a_rules_threshold_names_the_xids_that_break_it_and_no_others() -> None:
    """``Calls.REBOOT`` has a word of its own: that is how people speak of it."""
    named = {rule.code: named_in(rule.threshold) for rule in CHECK.rules}
    for calls in Calls:
        code = "off-the-bus" if calls is Calls.REBOOT else calls.value
        assert named[code] == {xid for xid, kind in CATALOGUE.items() if kind.calls is calls}, code
