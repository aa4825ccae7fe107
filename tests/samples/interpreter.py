"""A fresh interpreter with this project and nothing loaded yet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_code(code: str) -> subprocess.CompletedProcess[str]:
    """Run code to its end there; an exception in it fails the test."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )


def loaded_by(imports: str) -> set[str]:
    """Return the modules that are loaded after an import statement's names were imported."""
    return set(run_code(f"import sys, {imports}; print(*sorted(sys.modules))").stdout.split())
