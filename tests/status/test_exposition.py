from __future__ import annotations

import math

from prometheus_client.parser import text_string_to_metric_families

from gpumesh.status.exposition import Family, render


def test_unknown_values_and_empty_families_are_left_out() -> None:
    family = Family("a", "gauge", "A.")
    family.add(None)
    family.add(math.nan)
    family.add(math.inf)
    assert render([family]) == ""


def test_labels_keep_their_order_and_are_escaped() -> None:
    family = Family("a", "gauge", "A \\ and\na line.")
    family.add(1.5, (("z", 'quote " backslash \\ newline \n'), ("b", "ü")))
    text = render([family])
    assert text.splitlines()[2].startswith('a{z="quote \\" ')
    (parsed,) = text_string_to_metric_families(text)
    assert parsed.samples[0].labels == {"z": 'quote " backslash \\ newline \n', "b": "ü"}
    assert parsed.documentation == "A \\ and\na line."


def test_whole_numbers_stay_exact() -> None:
    family = Family("a", "counter", "A.")
    family.add(2**53 - 1)
    family.add(True)
    assert [line.split()[1] for line in render([family]).splitlines()[2:]] == ["9007199254740991", "1"]
