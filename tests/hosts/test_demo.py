"""The README's first command: real daemons, from start to end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]


def test_the_demo_tells_its_story_to_the_end(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpumesh.cli.main", "demo", "--pause", "0"],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for step in ("5 ready", "degraded", "failed", "all say", "ended cleanly"):
        assert step in done.stdout
    assert list(tmp_path.iterdir()) == []
