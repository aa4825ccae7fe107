from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from gpumesh.daemon import leftovers
from gpumesh.daemon.leftovers import StuckProber, hung_behind, stuck_probers, surely_stuck

PROBER = ("/usr/bin/python3", "-m", "gpumesh.daemon.prober_child", "3", "4", "5")


def process(
    root: Path,
    pid: int,
    *words: str,
    state: str = "S",
    parent: int = 1,
    started_s: int = 100,
    nested: str = "",
) -> None:
    """Write what /proc tells of a process."""
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    ticks = started_s * os.sysconf("SC_CLK_TCK")
    middle = " ".join(["0"] * 17)
    (folder / "stat").write_text(f"{pid} (py (thon) 3) {state} {parent} {middle} {ticks} 0 0\n")
    (folder / "status").write_text(f"Name:\tpython3\nNSpid:\t{pid}{nested}\n")


def stuck(root: Path) -> list[int]:
    return [item.pid for item in stuck_probers(root, root / "state")]


def test_a_prober_whose_starter_is_gone_is_stuck(tmp_path: Path) -> None:
    process(tmp_path, 50, *PROBER, "40", parent=1)
    assert stuck_probers(tmp_path, tmp_path / "state") == (StuckProber(50, 100.0, is_orphan=True),)


def test_a_prober_inside_the_kernel_is_stuck_although_its_daemon_lives(tmp_path: Path) -> None:
    process(tmp_path, 50, *PROBER, "40", parent=40, state="D")
    assert stuck_probers(tmp_path) == (StuckProber(50, 100.0, is_orphan=False),)


def test_a_prober_at_work_is_not(tmp_path: Path) -> None:
    process(tmp_path, 50, *PROBER, "40", parent=40)
    process(tmp_path, 51, *PROBER, "40", parent=40, state="R")
    process(tmp_path, 52, "/usr/bin/python3", "-m", "other", "40", parent=1, state="D")
    process(tmp_path, 53, *PROBER, "40", parent=1, state="Z")
    assert stuck(tmp_path) == []


def test_a_prober_in_a_container_has_ids_of_another_count(tmp_path: Path) -> None:
    process(tmp_path, 5000, *PROBER, "1", parent=4999, nested="\t12")
    assert stuck(tmp_path) == []


def test_the_oldest_comes_first_and_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    process(tmp_path, 50, *PROBER, "40", started_s=300)
    process(tmp_path, 51, *PROBER, "40", started_s=200)
    process(tmp_path, 52, *PROBER, "not a number")
    (tmp_path / "proc/53").mkdir()
    (tmp_path / "proc/self").mkdir()
    assert stuck(tmp_path) == [51, 50]
    assert stuck(tmp_path / "none") == []


def test_a_process_of_somebody_else_is_not_believed(tmp_path: Path) -> None:
    process(tmp_path, 50, *PROBER, "40")
    if os.geteuid() != 0:  # only root can give a file away; elsewhere the rule is tried by the first test
        return
    os.chown(tmp_path / "proc/50", 12345, 12345)
    assert stuck(tmp_path) == []
    (tmp_path / "state").mkdir()
    os.chown(tmp_path / "state", 12345, 12345)
    assert stuck(tmp_path) == [50]


async def test_what_ends_between_two_glances_is_not_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "SECOND_GLANCE_S", 0.05)
    process(tmp_path, 50, *PROBER, "40", started_s=300)
    process(tmp_path, 51, *PROBER, "40", started_s=200)
    assert [item.pid for item in await surely_stuck(tmp_path)] == [51, 50]
    asking = asyncio.create_task(surely_stuck(tmp_path))
    await asyncio.sleep(0)
    (tmp_path / "proc/51/cmdline").write_bytes(b"")
    assert [item.pid for item in await asking] == [50]


def test_a_look_that_is_not_begun_says_behind_whom_and_since_when() -> None:
    stuck = (StuckProber(50, 300.0, is_orphan=True), StuckProber(51, 200.0, is_orphan=True))
    probe = hung_behind(stuck, 260.0)
    assert (probe.is_hung, probe.hung_for_s, probe.driver) == (True, 60.0, None)
    assert "process 51" in probe.error
