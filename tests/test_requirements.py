"""Nothing is skipped in CI: what the machine lacks fails there."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.requirements import lacks

TESTS = Path(__file__).parent
OF_ITS_OWN_MACHINE = {"gpu/test_real_gpu.py"}
"""`make test-gpu` runs where a card is; CI does not choose it."""


def skips(path: Path) -> Iterator[str]:
    """Yield each place that skips a test by itself."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in {"skip", "skipif", "importorskip", "xfail"}:
            yield f"{path.relative_to(TESTS)}:{node.lineno}"


def test_what_is_lacking_skips_at_home_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no such thing"):
        lacks("no such thing")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no such thing"):
        lacks("no such thing")


def test_no_test_skips_in_another_way() -> None:
    found = [place for path in sorted(TESTS.rglob("*.py")) for place in skips(path)]
    allowed = {"requirements.py", "test_requirements.py", *OF_ITS_OWN_MACHINE}
    assert [place for place in found if place.rpartition(":")[0] not in allowed] == []
