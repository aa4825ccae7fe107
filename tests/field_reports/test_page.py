"""docs/field-reports.md and the tests say the same, and both ends of the bindings are really in use."""

from __future__ import annotations

import ast
import re
from importlib.metadata import version
from pathlib import Path

from tests.fakes.nvml.fixtures import OLDEST_BINDINGS
from tests.samples.site import Daemon, Site

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/field-reports.md"
ROW = re.compile(r"^\| (?P<report>[\w-]+#\d+) \|.*\| `(?P<test>test_\w+)` \|$", re.MULTILINE)


def rows() -> dict[str, str]:
    """The page's tests → the report that each is about."""
    return {found["test"]: found["report"] for found in ROW.finditer(PAGE.read_text())}


def reported_tests() -> set[str]:
    return {
        node.name
        for path in HERE.glob("test_*.py")
        if path.name != Path(__file__).name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_every_report_on_the_page_is_a_test_and_every_test_is_on_the_page() -> None:
    assert set(rows()) == reported_tests()
    assert len(rows()) == PAGE.read_text().count("` |\n")


def test_a_test_bears_the_name_of_its_report() -> None:
    for test, report in rows().items():
        name = report.replace("k8s-", "").replace("-", "_").replace("#", "_").lower()
        assert test.startswith(f"test_{name}_"), report


async def test_the_binding_that_a_test_names_is_in_use_here_and_in_the_child(
    site: Site, daemon: Daemon, binding: str
) -> None:
    """The oldest has no call for the margin to the temperature limit, the newest has."""
    site.cards.add_gpu("h100")
    site.look()
    daemon.install()
    daemon.driver.add_gpu("h100")
    await daemon.settle()
    (state,) = daemon.latest.devices
    assert state.reading is not None
    expected = None if binding == OLDEST_BINDINGS else 46
    assert (site.reading(0).temperature_margin_c, state.reading.temperature_margin_c) == (expected, expected)


def test_the_installed_binding_is_of_the_newest_series() -> None:
    assert int(version("nvidia-ml-py").partition(".")[0]) >= 13
