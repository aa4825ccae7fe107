"""A network of a test's own: a namespace in which nothing is but loopback and what the test adds."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.requirements import lacks

ROOT = Path(__file__).parents[2]
APART = ("unshare", "--user", "--map-root-user", "--net")


def python_in_a_network_of_its_own(network: str, script: str, *arguments: str) -> str:
    """Run Python where the shell commands ``network`` made the only network; return what it printed.

    Demands network namespaces of the machine. Errors: AssertionError with what the script said.
    """
    missing = [tool for tool in ("unshare", "ip") if shutil.which(tool) is None]
    if missing:
        lacks(f"{' and '.join(missing)} not installed (Debian: apt install util-linux iproute2)")
    made = subprocess.run([*APART, "sh", "-ec", network], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        lacks(f"no such network namespace can be made here: {made.stderr.strip()}")
    run = shlex.join([sys.executable, "-c", script, *arguments])
    done = subprocess.run(
        [*APART, "sh", "-ec", f"{network}\nexec {run}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
