"""What every test stands under: no leaked threads, no unawaited coroutines; and golden files."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

GRACE_S = 2.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden-update",
        action="store_true",
        help="write golden files anew from what the code gives now (make golden-update), then read the diff",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare text with ``golden/<name>`` beside the test; ``--golden-update`` writes it."""
    folder = Path(request.path).parent / "golden"
    is_update = bool(request.config.getoption("--golden-update"))

    def compare(name: str, text: str) -> None:
        path = folder / name
        if is_update:
            folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing; `make golden-update` writes it"
        assert text == path.read_text(encoding="utf-8"), f"{path} differs; `make golden-update` if meant"

    return compare


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail a test that leaves a thread behind; a coroutine never awaited surfaces at collection."""
    before = set(threading.enumerate())
    yield
    if _leaked(before):  # only then: a collection costs milliseconds, and cycles may hold an executor
        gc.collect()
    deadline = time.monotonic() + GRACE_S
    while (left := _leaked(before)) and time.monotonic() < deadline:
        left[0].join(0.05)
    assert not left, f"threads left behind: {[thread.name for thread in left]}"


def _leaked(before: set[threading.Thread]) -> list[threading.Thread]:
    # The event loop's own executor ends with the loop, which may be after this.
    return [
        thread
        for thread in threading.enumerate()
        if thread not in before and thread.is_alive() and not thread.name.startswith("asyncio_")
    ]
