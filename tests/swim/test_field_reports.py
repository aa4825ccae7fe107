"""docs/membership.md names a test for every report of what goes wrong elsewhere, and each of them exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "membership.md"
THREADS = (
    "consul_916",
    "consul_5928",
    "serf_336",
    "memberlist_311",
    "memberlist_222",
    "foca_15",
    "metallb_589",
    "serf_333",
    "consul_22753",
    "libnetwork_1734",
    "consul_4806",
    "memberlist_157",
    "memberlist_253",
    "quickwit_6653",
    "foca_31",
    "foca_25",
    "serf_579",
    "consul_719",
    "alertmanager_1412",
    "memberlist_191",
    "memberlist_243",
    "consul_9927",
    "memberlist_259",
    "consul_3023",
    "scylla_5164",
    "akka_30335",
    "consul_529",
    "consul_1465",
    "memberlist_305",
    "consul_843",
    "serf_604",
    "alertmanager_1564",
    "consul_13379",
    "serf_359",
    "corrosion_460",
)
ROW = re.compile(
    r"^\| (?P<thread>[^|]+?) \| .+ \| `(?P<file>[a-z_/]+\.py)::(?P<test>test_\w+)` \|$", re.MULTILINE
)


def reports() -> dict[str, tuple[str, str]]:
    """Return file and test of each thread in the page's table."""
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition("<!-- reports -->")[2].partition("<!-- end -->")[0]
    found = {row["thread"]: (row["file"], row["test"]) for row in ROW.finditer(table)}
    return {re.sub(r"#| PR ", "_", thread): place for thread, place in found.items()}


def test_every_report_stands_in_the_table() -> None:
    assert sorted(reports()) == sorted(THREADS)


@pytest.mark.parametrize("thread", THREADS)
def test_the_test_that_the_table_names_exists_and_names_its_thread(thread: str) -> None:
    file, name = reports()[thread]
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    names = [item.name for item in tree.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert name in names, f"tests/{file} has no {name}"
    assert re.match(rf"test_{thread}(?![0-9])", name), f"{name} does not name {thread}"
