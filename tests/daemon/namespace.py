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
IPV6_ONLY = "ip link set lo up; ip address add 2001:db8::5/64 dev lo nodad"
IPV4_ONLY = (
    "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; ip link set lo up; "
    "ip address add 10.0.0.5/24 dev lo; ip route add default dev lo src 10.0.0.5"
)
"""Networks of one family: 2001:db8::5, or 10.0.0.5 where the kernel has IPv6 switched off."""


def python_in_a_network_of_its_own(network: str, script: str, *arguments: str, within_s: float = 60.0) -> str:
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
        timeout=within_s,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
