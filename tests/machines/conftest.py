"""The package under test, built once, and the question whether this host can boot machines."""

from pathlib import Path

import pytest

from tests.machines.fleet import build_package, missing_requirements
from tests.requirements import lacks


@pytest.fixture(scope="session", autouse=True)
def requirements() -> None:
    """Skip where machines cannot be booted, saying why; in CI that is a failure, since nothing was proved."""
    missing = missing_requirements()
    if missing:
        lacks(f"cannot boot machines: {'; '.join(missing)} (apt packages: .ci/apt-packages)")


@pytest.fixture(scope="session")
def deb(requirements: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The .deb of the working tree."""
    return build_package(tmp_path_factory.mktemp("deb"))
