"""Each report runs under both ends of the promised range of bindings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fakes.nvml.fixtures import binding, cards, oldest_bindings
from tests.fakes.nvml.state import FakeDriver
from tests.samples.site import Daemon, Site

__all__ = ["binding", "cards", "oldest_bindings"]


@pytest.fixture
def site(cards: FakeDriver, binding: str, tmp_path: Path) -> Iterator[Site]:
    made = Site(cards, tmp_path)
    yield made
    made.close()


@pytest_asyncio.fixture
async def daemon(binding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Daemon]:
    made = Daemon(tmp_path, monkeypatch)
    yield made
    made.driver.clear_faults()
    await made.prober.close()
