from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from gpumesh.errors import ConfigError, DriverAbsentError, DriverError
from gpumesh.health.devices import Reading
from gpumesh.health.simulated import PROFILES, SimulatedDriver, load_profile, profile_names
from gpumesh.model import Severity, Verdict
from tests.health.builders import Course, answered


def make(
    *profiles: str, host: str = "a", faults: Path | None = None, seed: int = 1, elapsed_s: float = 0.0
) -> SimulatedDriver:
    instants = iter([100.0])
    return SimulatedDriver(
        profiles,
        host=host,
        random=random.Random(seed),
        faults=faults,
        clock=lambda: next(instants, 100.0 + elapsed_s),
        sleep=lambda _: None,
    )


def read(driver: SimulatedDriver, index: int = 0) -> Reading:
    reading = driver.probe_device(index).reading
    assert reading is not None
    return reading


def test_each_kind_of_card_is_there() -> None:
    assert profile_names() == (
        *("a100", "h100", "h100-mig", "h200", "l40s"),
        *("rtx-2080-super", "rtx-4080-super", "t4", "vgpu-a6000-24q"),
    )


def test_a_profile_says_where_it_is_known_from() -> None:
    for path in PROFILES.glob("*.toml"):
        head = path.read_text().partition("[driver]")[0]
        assert any(word in head for word in ("driver ", "capture ")), path
        assert all(line.startswith("#") for line in head.splitlines())


@pytest.mark.parametrize("load", ["idle", "busy"])
@pytest.mark.parametrize("name", profile_names())
def test_a_card_as_it_was_seen_is_well_at_rest_and_at_work(tmp_path: Path, name: str, load: str) -> None:
    faults = tmp_path / "faults.toml"
    faults.write_text("[gpu.0]\nbusy = true\n" if load == "busy" else "")
    driver = make(name, faults=faults, elapsed_s=1000)
    course = Course(interval_s=30)
    for _ in range(60):
        course.look(replace(answered([driver.probe_device(0)]), driver=driver.open()))
    (gpu,) = course.health.report.gpus
    assert gpu.verdict is Verdict.HEALTHY
    assert [finding for finding in gpu.findings if finding.severity is not Severity.INFO] == []
    assert gpu.is_busy is (load == "busy")


def test_a_carved_up_card_has_instances_of_its_own() -> None:
    driver = make("h100-mig", "h100-mig")
    first, second = read(driver, 0).mig_instances or (), read(driver, 1).mig_instances or ()
    assert [item.profile for item in first] == ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]
    assert len({item.uuid for item in first + second}) == 8
    assert first == read(driver, 0).mig_instances, "the same in every look"


@pytest.mark.parametrize("name", profile_names())
def test_a_profile_is_within_its_own_card(name: str) -> None:
    profile = load_profile(name)
    total = profile.card.memory_total_bytes
    assert total is not None
    for reading in (profile.idle, profile.loaded):
        parts = (reading.memory_used_bytes, reading.memory_free_bytes, reading.memory_reserved_bytes)
        assert abs(total - sum(part or 0 for part in parts)) <= 3 << 20
        assert (reading.power_w or 0) <= (reading.power_limit_w or 0)
        assert (reading.power_w is None) == (reading.power_limit_w is None)


def test_an_unknown_profile_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match='"rtx-9090": no such profile; there are: a100, h100, h100-mig'):
        make("rtx-9090")


def test_a_card_is_the_same_in_every_run_and_no_other_hosts() -> None:
    first, again, elsewhere = (make("h100", "h100", host=host).probe_device(0).info for host in "aab")
    assert first is not None
    assert elsewhere is not None
    assert first == again
    assert first.uuid != elsewhere.uuid
    other = make("h100", "h100").probe_device(1).info
    assert other is not None
    assert (other.uuid, other.serial) != (first.uuid, first.serial)


def test_a_seed_repeats_the_readings() -> None:
    def readings(seed: int) -> list[Reading]:
        driver = make("rtx-4080-super", seed=seed)
        return [read(driver) for _ in range(10)]

    assert readings(7) == readings(7)
    assert readings(7) != readings(8)


def test_energy_grows_by_the_power_drawn() -> None:
    spent = (read(make("h100", elapsed_s=1000)).energy_mj or 0) - (load_profile("h100").idle.energy_mj or 0)
    assert 0.97 * 69.85e6 < spent < 1.03 * 69.85e6


def test_what_the_card_cannot_say_is_absent() -> None:
    driver = make("rtx-4080-super", "h100")
    assert read(driver, 0).ecc_dbe_volatile is None
    assert read(driver, 0).fan_percent == 0
    assert read(driver, 1).ecc_dbe_volatile == 0
    assert read(driver, 1).fan_percent is None


def test_faults_are_taken_up_when_the_file_changes(tmp_path: Path) -> None:
    faults = tmp_path / "faults.toml"
    driver = make("h100", "h100", faults=faults)
    assert driver.count() == 2
    faults.write_text("[gpu.1]\nlost = true\n")
    state = driver.probe_device(1)
    assert (state.is_lost, state.error_code, state.reading) == (True, 15, None)
    assert state.info is not None
    assert not driver.probe_device(0).is_lost
    faults.write_text("[gpu.0]\ntemperature_c = 97\nbusy = true\n")
    assert read(driver).temperature_c == 97
    assert read(driver).utilization_gpu_percent == 100
    faults.unlink()
    assert read(driver).utilization_gpu_percent == 0


def test_a_missing_card_moves_the_ones_behind_it_up_but_not_on_the_bus(tmp_path: Path) -> None:
    faults = tmp_path / "faults.toml"
    driver = make("h100", "h200", faults=faults)
    faults.write_text("[gpu.0]\nmissing = true\n")
    assert driver.count() == 1
    info = driver.probe_device(0).info
    assert info is not None
    assert (info.index, info.name) == (0, "NVIDIA H200")
    assert len(driver.pci_addresses()) == 2
    assert driver.probe_device(1).error


def test_an_absent_driver_is_absent_until_it_is_not(tmp_path: Path) -> None:
    faults = tmp_path / "faults.toml"
    faults.write_text("driver_absent = true\n")
    driver = make("h100", faults=faults)
    with pytest.raises(DriverAbsentError, match="take driver_absent out"):
        driver.open()
    faults.write_text("")
    assert driver.open().driver_version == "590.48.01"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("[gpu.0]\nlosst = true\n", r"gpu\.0\.losst"),
        ("[gpu.0]\ntemperature_c = 'hot'\n", r"gpu\.0\.temperature_c"),
        ("[gpu.first]\nlost = true\n", r"gpu\.first"),
        ("gpu = 3\n", "gpu: must be tables"),
        ("driver_gone = true\n", "driver_gone"),
        ("gpu = [", "is not TOML"),
    ],
)
def test_a_wrong_faults_file_is_refused_by_key(tmp_path: Path, content: str, named: str) -> None:
    faults = tmp_path / "faults.toml"
    faults.write_text(content)
    driver = make("h100", faults=faults)
    with pytest.raises(DriverError, match=named):
        driver.count()
    assert driver.probe_device(0).error
