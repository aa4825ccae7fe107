from __future__ import annotations

from tests.samples.interpreter import run_code

CODE = """
import sys, types
from pathlib import Path
from gpumesh.cli.run import run_daemon
print(run_daemon(None, types.SimpleNamespace(config_path=Path("/nonexistent/gpumesh.toml"))))
print(*sorted(sys.modules))
"""


def test_the_daemon_does_without_the_compiled_lists_that_load_the_cpp_library() -> None:
    outcome = run_code(CODE)
    code, modules = outcome.stdout.splitlines()
    assert code == "2"
    assert "/nonexistent/gpumesh.toml" in outcome.stderr
    loaded = set(modules.split())
    assert "frozenlist" in loaded
    assert not any(name.startswith("frozenlist._") for name in loaded)
