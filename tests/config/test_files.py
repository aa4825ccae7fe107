"""Files that are no files: nothing waits on them."""

import os
from pathlib import Path

import pytest

from gpumesh.config import load
from gpumesh.config.files import read_regular
from gpumesh.errors import ConfigError

pytestmark = pytest.mark.timeout(20)


def test_a_regular_file_is_read_up_to_the_bound(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 200_000)
    data, status = read_regular(path, 150_000)
    assert (len(data), status.st_size) == (150_000, 200_000)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(tmp_path / "pipe", 10)


def test_a_device_without_end_is_refused() -> None:
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(Path("/dev/zero"), 10)


@pytest.mark.parametrize("kind", ["pipe", "directory", "huge", "deep", "loop"])
def test_a_configuration_that_is_none_is_refused_in_words(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "gpumesh.toml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    elif kind == "deep":
        path.write_text("a = " + "[" * 100_000)
    else:
        path.symlink_to(path)
    with pytest.raises(ConfigError, match=r"gpumesh\.toml: "):
        load(path)
