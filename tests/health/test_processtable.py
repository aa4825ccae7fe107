"""Reading /proc: a made-up one, and this machine's own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpumesh.health.processtable import ProcessTable

INITIAL = "pid:[4026531836]"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc that shows the whole host."""
    folder = tmp_path / "proc"
    (folder / "self/ns").mkdir(parents=True)
    (folder / "self/ns/pid").symlink_to(INITIAL)
    (folder / "1").mkdir()
    return folder


def add(proc: Path, pid: int, stat: str) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(stat)


@pytest.mark.parametrize("letter", "RSDZTI")
def test_the_state_stands_behind_the_name_whatever_is_in_it(proc: Path, tmp_path: Path, letter: str) -> None:
    add(proc, 4242, f"4242 (a ) R (b) {letter} 1 4242 4242 0 -1")
    assert ProcessTable(tmp_path).state(4242) == letter


def test_visedit_5_a_process_that_the_kernel_does_not_know_is_gone(proc: Path, tmp_path: Path) -> None:
    assert ProcessTable(tmp_path).state(4242) == "X"


def test_in_a_container_a_number_that_is_not_there_tells_nothing(proc: Path, tmp_path: Path) -> None:
    (proc / "self/ns/pid").unlink()
    (proc / "self/ns/pid").symlink_to("pid:[4026532999]")
    assert ProcessTable(tmp_path).state(4242) is None


def test_where_proc_hides_others_processes_a_number_that_is_not_there_tells_nothing(
    proc: Path, tmp_path: Path
) -> None:
    (proc / "1").rmdir()
    assert ProcessTable(tmp_path).state(4242) is None


def test_an_empty_or_torn_line_tells_nothing(proc: Path, tmp_path: Path) -> None:
    add(proc, 4242, "")
    add(proc, 4343, "4343 (torn) ")
    table = ProcessTable(tmp_path)
    assert (table.state(4242), table.state(4343)) == (None, None)


def test_a_defunct_child_of_this_very_test_is_seen_as_one() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    table = ProcessTable(Path("/"))
    try:
        until = time.monotonic() + 60
        while table.state(child.pid) != "Z" and time.monotonic() < until:
            time.sleep(0.02)
        assert table.state(child.pid) == "Z"
    finally:
        child.wait()
    assert table.state(os.getpid()) in {"R", "S"}
