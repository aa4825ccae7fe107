from pathlib import Path

import pytest

from gpumesh.status.exposition import render
from gpumesh.status.process import process_families

STAT = "42 (a ) b) S " + " ".join(str(number) for number in range(4, 53))


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "self/fd").mkdir(parents=True)
    for number in "012":
        (tmp_path / "self/fd" / number).touch()
    (tmp_path / "self/stat").write_text(STAT)
    (tmp_path / "stat").write_text("cpu 1 2 3\nbtime 1700000000\n")
    return tmp_path


def values(proc: Path) -> dict[str, float]:
    lines = [line for line in render(process_families(proc)).splitlines() if not line.startswith("#")]
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


def test_fields_are_counted_behind_a_name_that_holds_brackets(proc: Path) -> None:
    told = values(proc)
    assert told["process_virtual_memory_bytes"] == 23
    assert told["process_resident_memory_bytes"] == 24 * 4096
    assert told["process_cpu_seconds_total"] == pytest.approx((14 + 15) / 100)
    assert told["process_start_time_seconds"] == pytest.approx(1_700_000_000 + 22 / 100)
    assert told["process_open_fds"] == 3


@pytest.mark.parametrize("damage", ["", "42 (gpumesh) S 1 2", "42 (gpumesh) S " + "x " * 40])
def test_what_proc_does_not_tell_is_left_out_and_never_zero(proc: Path, damage: str) -> None:
    (proc / "self/stat").write_text(damage)
    told = values(proc)
    assert "process_resident_memory_bytes" not in told
    assert 0 not in told.values()
    assert any(name.startswith("python_info") for name in told)


def test_this_very_process_is_told_of() -> None:
    told = values(Path("/proc"))
    assert told["process_resident_memory_bytes"] > 1 << 20
    assert told["process_open_fds"] >= 3
