from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.nvml import build
from tests.fakes.nvml.client import DriverClient
from tests.fakes.nvml.state import FakeDriver

OLDEST_BINDINGS = "12.535.161"


@pytest.fixture(scope="session")
def library() -> Path:
    return build.library()


@pytest.fixture(scope="session")
def oldest_bindings() -> Path:
    folder = build.CACHE / f"nvidia-ml-py-{OLDEST_BINDINGS}"
    if not (folder / "pynvml.py").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        done = subprocess.run(
            [*command, f"nvidia-ml-py=={OLDEST_BINDINGS}"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"nvidia-ml-py {OLDEST_BINDINGS} cannot be had: {done.stderr.strip()[-300:]}")
    return folder


@pytest.fixture
def driver(tmp_path: Path) -> FakeDriver:
    return FakeDriver(tmp_path / "state", host=tmp_path.name)


@pytest.fixture(params=["installed", OLDEST_BINDINGS])
def bindings(request: pytest.FixtureRequest) -> Path | None:
    if request.param == "installed":
        return None
    folder: Path = request.getfixturevalue("oldest_bindings")
    return folder


@pytest.fixture
def client(library: Path, driver: FakeDriver, bindings: Path | None) -> Iterator[DriverClient]:
    with DriverClient(library, driver.path, bindings=bindings) as asking:
        yield asking
