from __future__ import annotations

import os
from pathlib import Path

from gpumesh.daemon.library_traces import LIBRARY, library_traces


def test_traces_are_the_same_while_nothing_is_installed(tmp_path: Path) -> None:
    (tmp_path / "usr/lib").mkdir(parents=True)
    assert library_traces(tmp_path, "") == library_traces(tmp_path, "")


def test_a_new_loader_cache_changes_the_traces(tmp_path: Path) -> None:
    cache = tmp_path / "etc/ld.so.cache"
    cache.parent.mkdir()
    cache.touch()
    os.utime(cache, (1, 1))
    before = library_traces(tmp_path, "")
    os.utime(cache, (2, 2))
    assert library_traces(tmp_path, "") != before


def test_a_library_in_the_search_path_changes_the_traces(tmp_path: Path) -> None:
    search_path = f"{tmp_path / 'a'}:{tmp_path / 'b'}"
    before = library_traces(tmp_path, search_path)
    (tmp_path / "b").mkdir()
    assert library_traces(tmp_path, search_path) == before
    (tmp_path / "b" / LIBRARY).touch()
    assert library_traces(tmp_path, search_path) != before
