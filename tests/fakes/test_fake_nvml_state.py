from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.nvml import build, profile
from tests.fakes.nvml.state import FakeDriver


def test_what_one_process_wrote_another_takes_up_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "state"
    written = FakeDriver(path)
    written.add_gpu("rtx-4080-super", load="loaded")
    written.add_gpu("h100")
    written.lose(1)
    written.xid(1, 79)
    taken_up = FakeDriver.from_file(path)
    assert taken_up.text() == written.text() == path.read_text()
    taken_up.xid(0, 48)
    assert path.read_text().splitlines()[-2:] == ["xid gpu 1 79 1", "xid gpu 0 48 2"]


def test_no_two_cards_of_a_fleet_share_a_uuid_or_serial_or_a_host_a_bus_address(tmp_path: Path) -> None:
    seen: list[str | None] = []
    for host in ("a", "b"):
        driver = FakeDriver(tmp_path / host, host=host)
        for _ in range(8):
            driver.add_gpu("h100")
        seen += [driver.get(slot, key) for slot in driver.slots for key in ("uuid", "serial")]
        assert len({driver.get(slot, "pci_bus_id") for slot in driver.slots}) == 8
    assert None not in seen
    assert len(set(seen)) == len(seen) == 32


def test_every_reading_changes_between_idle_and_loaded_and_back(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path / "state")
    slot = driver.add_gpu("rtx-2080-super")
    idle = driver.text()
    driver.put_under(slot, "loaded")
    assert driver.get(slot, "process 28511") == "compute 230 MiB"
    driver.put_under(slot, "idle")
    assert sorted(driver.text().splitlines()) == sorted(idle.splitlines())


def test_both_loads_of_a_profile_give_the_same_readings_and_processes_that_fit() -> None:
    for name in profile.names():
        kind = profile.read(name)
        settled = [
            {key for key in load if not key.startswith("process")} for load in (kind.idle, kind.loaded)
        ]
        assert settled[0] == settled[1]
        assert not settled[0] & set(kind.card)
        for load in (kind.idle, kind.loaded):
            listed = sum(int(value.split()[1]) for key, value in load.items() if key.startswith("process"))
            assert listed <= int(load["memory_used_bytes"].split()[0])


@pytest.mark.parametrize("key", ["temprature_c", "process", "field x", ""])
def test_a_key_that_the_library_does_not_know_is_refused(tmp_path: Path, key: str) -> None:
    driver = FakeDriver(tmp_path / "state")
    driver.add_gpu()
    before = driver.path.read_text()
    with pytest.raises(ValueError, match="no key of a card"):
        driver.set(0, key, 1)
    assert driver.path.read_text() == before


def test_a_fault_in_a_function_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no nvmlDeviceGetTemprature"):
        FakeDriver(tmp_path / "state").hang("nvmlDeviceGetTemprature")


def test_the_file_is_replaced_whole_and_readable_for_all(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path / "state")
    driver.add_gpu()
    before = driver.path.stat().st_ino
    driver.set(0, "fan_percent", 30)
    assert driver.path.stat().st_ino != before
    assert driver.path.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_what_is_exported_is_what_the_sources_define() -> None:
    built = build.library() / build.LIBRARY
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", built], capture_output=True, text=True, check=True
    ).stdout
    counted = {"fake_nvml_num_samples"}
    assert set(re.findall(r" T (\w+)$", listing, re.MULTILINE)) == build.exported_calls() | counted


def test_leaving_out_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no nvmlFoo to leave out"):
        build.library(missing=["nvmlFoo"])


def test_the_script_writes_a_file_and_changes_it(tmp_path: Path) -> None:
    path = tmp_path / "state"
    script = [sys.executable, "-m", "tests.fakes.nvml.state", "--out", str(path)]
    root = Path(build.__file__).parents[3]
    subprocess.run([*script, "--gpus", "rtx-4080-super,h100", "--host", "a"], check=True, cwd=root)
    subprocess.run(
        [*script, "--set", "1", "temperature_c", "91", "--fault", "gpu 0 lost"], check=True, cwd=root
    )
    driver = FakeDriver.from_file(path)
    assert driver.slots == (0, 1)
    assert driver.get(1, "temperature_c") == "91"
    assert path.read_text().splitlines()[-1] == "fault gpu 0 lost"
