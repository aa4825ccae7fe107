from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.nvml import build
from tests.fakes.nvml.client import DriverClient
from tests.fakes.nvml.fixtures import bindings, oldest_bindings
from tests.fakes.nvml.state import FakeDriver

__all__ = ["bindings", "oldest_bindings"]


@pytest.fixture(scope="session")
def library() -> Path:
    return build.library()


@pytest.fixture
def driver(tmp_path: Path) -> FakeDriver:
    return FakeDriver(tmp_path / "state", host=tmp_path.name)


@pytest.fixture
def client(library: Path, driver: FakeDriver, bindings: Path | None) -> Iterator[DriverClient]:
    with DriverClient(library, driver.path, bindings=bindings) as asking:
        yield asking
