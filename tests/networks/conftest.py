"""Networks of namespaces with real daemons in them, and the question whether this host can have them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machines.leftovers import own_prefix, sweep
from tests.machines.network import Network
from tests.networks.daemons import Daemons
from tests.requirements import lacks

_TOOLS = ("ip", "nft", "nsenter")


@pytest.fixture(scope="session", autouse=True)
def requirements() -> None:
    """Skip where namespaces cannot be made, saying why; in CI that is a failure, since nothing was proved."""
    missing = [f"{tool} is not installed" for tool in _TOOLS if shutil.which(tool) is None]
    if os.geteuid() != 0:
        missing.append("only root can make network namespaces")
    if missing:
        lacks(f"cannot make networks: {'; '.join(missing)} (apt packages: .ci/apt-packages)")


@pytest.fixture
def network(requirements: None) -> Iterator[Network]:
    sweep()
    made = Network(f"{own_prefix()}-net")
    yield made
    made.close()


@pytest.fixture
def daemons(tmp_path: Path, network: Network, request: pytest.FixtureRequest) -> Iterator[Daemons]:
    """No daemon yet; when the test failed, their logs are shown."""
    made = Daemons(tmp_path)
    failed_before = request.session.testsfailed
    yield made
    made.stop()
    if request.session.testsfailed > failed_before:
        for host in made.hosts.values():
            if host.log_path.exists():
                print(f"--- {host.name}\n{host.log_path.read_text(errors='replace')[-4000:]}")
