"""Several booted machines on one network, made from the package under test.

    with Fleet(deb) as fleet:
        cafe, studio = fleet.boot(cafe="bookworm", studio="trixie")
        cafe.install(deb)
        cafe.run("gpumesh init")
        cafe.power_cut()

Needs root, and the tools of .ci/apt-packages; `missing_requirements` says what is not there.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

from tests.machines.leftovers import own_prefix, sweep
from tests.machines.machine import Machine
from tests.machines.network import Network
from tests.machines.rootfs import RootFs, dependencies_of, root_fs

REPOSITORY = Path(__file__).resolve().parents[2]
_BUILD_TOOLS = ("dpkg-buildpackage", "dh", "dh_python3", "lintian", "pybuild")
_BOOT_TOOLS = ("ip", "mmdebstrap", "nft", "nsenter", "setpriv", "systemd-nspawn")


def missing_requirements() -> list[str]:
    """Say, in words, what this host lacks for booting machines; empty when it can."""
    missing = [
        f"{tool} is not installed" for tool in (*_BUILD_TOOLS, *_BOOT_TOOLS) if shutil.which(tool) is None
    ]
    if os.geteuid() != 0:
        missing.append("only root can boot machines")
    return missing


def build_package(output: Path, revision: str | None = None) -> Path:
    """Build the .deb from the working tree; a later `revision` makes a newer version of the same sources."""
    command = [str(REPOSITORY / "packaging/deb/build"), "--output", str(output)]
    if revision is not None:
        command += ["--revision", revision]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    if built.returncode != 0:
        raise RuntimeError(f"packaging/deb/build failed:\n{built.stdout}{built.stderr}")
    return Path(built.stdout.strip())


def wait_until(condition: Callable[[], bool], within_s: float, what: str) -> float:
    """Poll until `condition` holds and return the seconds it took; `what` names it when it never does."""
    started_at = time.monotonic()
    while True:
        holds = condition()
        taken_s = time.monotonic() - started_at
        if holds:
            return taken_s
        if taken_s > within_s:
            raise AssertionError(f"not within {within_s:.0f} s: {what}")
        time.sleep(0.2)


class Fleet:
    """Machines whose root file systems hold the dependencies of `deb`, and nothing else that it needs.

    A context manager: at its end, also by an error, machines, disks and network are gone. What a killed
    test run left behind is removed by the next one.
    """

    def __init__(self, deb: Path) -> None:
        self._dependencies = dependencies_of(deb)
        self._cleanup = ExitStack()
        self._prefix = own_prefix()
        self._roots: dict[str, RootFs] = {}
        self.machines: dict[str, Machine] = {}

    def __enter__(self) -> "Fleet":  # noqa: PYI034 - typing.Self came with 3.11
        sweep()
        self._disks = Path(tempfile.mkdtemp(prefix=f"{self._prefix}-"))
        self._cleanup.callback(shutil.rmtree, self._disks, ignore_errors=True)
        self._network = Network(self._prefix)
        self._cleanup.callback(self._network.close)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def boot(self, **suites: str) -> list[Machine]:
        """Boot machines, all at once: a keyword names each, its value is the suite (`bookworm`, `trixie`)."""
        machines = [self._add(name, suite) for name, suite in suites.items()]
        for machine in machines:
            machine.start()
        for machine in machines:
            machine.wait_until_booted()
        return machines

    def report(self) -> str:
        """Collect the daemons' journals of all running machines, for the message of a failed test."""
        parts = []
        for machine in self.machines.values():
            with suppress(Exception):
                parts.append(f"--- {machine.name} ({machine.suite}, {machine.address})\n{machine.journal()}")
        return "\n".join(parts)

    def _add(self, name: str, suite: str) -> Machine:
        assert name not in self.machines, f"there is a machine {name} already"
        if suite not in self._roots:
            lent = root_fs(suite, self._dependencies, cache_folder() / "rootfs")
            self._roots[suite] = self._cleanup.enter_context(lent)
        port = self._network.add_port(name)
        machine = Machine(name, self._roots[suite], port, self._disks / name, f"{self._prefix}-{name}")
        self._cleanup.callback(machine.close)
        self.machines[name] = machine
        return machine


def cache_folder() -> Path:
    """Return where root file systems are kept between runs: $XDG_CACHE_HOME/gpumesh, or .cache here."""
    configured = os.environ.get("XDG_CACHE_HOME")
    return Path(configured) / "gpumesh" if configured else REPOSITORY / ".cache"
