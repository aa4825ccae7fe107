from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = """
import sys, types
from pathlib import Path
from gpumesh.cli.run import run_daemon
print(run_daemon(None, types.SimpleNamespace(config_path=Path("/nonexistent/gpumesh.toml"))))
print(*sorted(sys.modules))
"""


def test_the_daemon_does_without_the_compiled_lists_that_load_the_cpp_library() -> None:
    outcome = subprocess.run(
        [sys.executable, "-c", CODE],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = outcome.stdout.splitlines()
    assert code == "2"
    assert "/nonexistent/gpumesh.toml" in outcome.stderr
    loaded = set(modules.split())
    assert "frozenlist" in loaded
    assert not any(name.startswith("frozenlist._") for name in loaded)
