"""Fixtures over the fake driver library, for every folder whose conftest imports them.

The library is loaded into this process once: what the binding then asks for by name is the fake. Each test
has the state file to itself, and may run under both ends of the promised range of bindings.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpumesh.health.devices import Reading
from gpumesh.health.nvml import NvmlDriver
from gpumesh.health.nvml_gpm import Moment
from tests.fakes.nvml import build
from tests.fakes.nvml.state import FakeDriver
from tests.requirements import lacks

OLDEST_BINDINGS = "12.535.161"
INSTALLED = "installed"
"""The newest that the package index had when the tests' environment was made."""


@functools.cache
def _folder_of_the_loaded_fake() -> tempfile.TemporaryDirectory[str]:
    """Load the fake; it remembers the state file it was loaded with, so that is one for the whole run."""
    folder = tempfile.TemporaryDirectory(prefix="fake-nvml-")
    os.environ["GPUMESH_FAKE_NVML"] = str(Path(folder.name) / "state")
    ctypes.CDLL(str(build.library() / build.LIBRARY)).nvmlInit_v2()  # its first call looks the file up
    del os.environ["GPUMESH_FAKE_NVML"]
    return folder


@pytest.fixture(scope="session")
def oldest_bindings() -> Path:
    """Folder with the oldest promised pynvml, to be put ahead on the path."""
    folder = build.CACHE / f"nvidia-ml-py-{OLDEST_BINDINGS}"
    if not (folder / "pynvml.py").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        done = subprocess.run(
            [*command, f"nvidia-ml-py=={OLDEST_BINDINGS}"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            lacks(f"nvidia-ml-py {OLDEST_BINDINGS} cannot be had: {done.stderr.strip()[-300:]}")
    return folder


@pytest.fixture(params=[INSTALLED, OLDEST_BINDINGS])
def bindings(request: pytest.FixtureRequest) -> Path | None:
    """Folder of another pynvml for a process of its own; None stands for the installed one."""
    if request.param == INSTALLED:
        return None
    folder: Path = request.getfixturevalue("oldest_bindings")
    return folder


@pytest.fixture(params=[INSTALLED, OLDEST_BINDINGS])
def binding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which pynvml this process imports, and each child that it starts."""
    name: str = request.param
    if name == OLDEST_BINDINGS:
        folder: Path = request.getfixturevalue("oldest_bindings")
        specification = importlib.util.spec_from_file_location("pynvml", folder / "pynvml.py")
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        # It looks itself up by name while it is made.
        monkeypatch.setitem(sys.modules, "pynvml", module)
        specification.loader.exec_module(module)
        monkeypatch.syspath_prepend(str(folder))
    return name


@pytest.fixture
def cards(tmp_path: Path) -> FakeDriver:
    """The driver behind the library in this process; without cards it is not loaded."""
    state_file = Path(_folder_of_the_loaded_fake().name) / "state"
    state_file.unlink(missing_ok=True)
    return FakeDriver(state_file, host=tmp_path.name)


def passing_time() -> Callable[[], Moment]:
    """A clock that is five seconds later each time it is asked."""
    seconds = itertools.count(100, 5)

    def clock() -> Moment:
        now = float(next(seconds))
        return Moment(now, now)

    return clock


@pytest.fixture
def driver(cards: FakeDriver, tmp_path: Path) -> Iterator[NvmlDriver]:
    """The driver of gpumesh over it, to be opened; its looks are seconds apart."""
    opened = NvmlDriver(root=tmp_path, clock=passing_time())
    yield opened
    opened.close()


def read(driver: NvmlDriver, index: int = 0) -> Reading:
    """One look at a card in which no call failed."""
    state = driver.probe_device(index)
    assert state.error == ""
    assert state.reading is not None
    return state.reading
