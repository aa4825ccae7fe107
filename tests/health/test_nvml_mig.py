"""Carved-up cards, and cards that are themselves a slice of one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpumesh.health.devices import MigInstance
from gpumesh.health.nvml import NvmlDriver
from tests.fakes.nvml.fixtures import read
from tests.fakes.nvml.state import FakeDriver

MIB = 1 << 20


def carve(cards: FakeDriver, slot: int) -> None:
    """Turn MIG on, as an A100 or H100 then answers: neither utilisation nor remapped rows."""
    cards.set(slot, "mig_mode", 1)
    for key in ("utilization_gpu_percent", "utilization_memory_percent", "remapped_rows_correctable"):
        cards.set(slot, key, None)


def test_mig_instances_are_told_with_their_memory_as_it_is_now(
    cards: FakeDriver, driver: NvmlDriver, binding: str
) -> None:
    cards.add_gpu("h100")
    carve(cards, 0)
    cards.set(0, "mig 1", "1g.10gb 9 0 9856MiB 24MiB 16")
    cards.set(0, "mig 3", "3g.40gb 2 0 40320MiB 0")
    driver.open()
    reading = read(driver)
    assert reading.mig_enabled
    assert reading.utilization_gpu_percent is None
    assert reading.remapped_correctable is None
    assert reading.temperature_c == 41, "what the parent can say is there"
    first, second = reading.mig_instances or ()
    assert first.uuid.startswith("MIG-")
    assert first.uuid != second.uuid
    assert replace(first, uuid="") == MigInstance("", 9, 0, "1g.10gb", 9856 * MIB, 24 * MIB, 9832 * MIB, 16)
    assert second.num_multiprocessors is None, "a driver that does not tell"
    assert (second.profile, second.memory_used_bytes) == ("3g.40gb", 0)
    cards.set(0, "mig 1", "1g.10gb 9 0 9856MiB 1024MiB")
    assert [item.memory_used_bytes for item in read(driver).mig_instances or ()] == [1024 * MIB, 0]


def test_mig_that_is_on_without_instances_is_empty_and_off_is_absent(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    cards.add_gpu("h100")
    driver.open()
    assert read(driver).mig_instances is None
    carve(cards, 0)
    assert read(driver).mig_instances == ()
    cards.set(0, "mig_mode", 0)
    assert read(driver).mig_instances is None


def test_memory_of_a_mig_instance_that_a_container_may_not_see_is_absent(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    cards.add_gpu("h100")
    carve(cards, 0)
    cards.set(0, "mig 1", "1g.10gb 9 0 9856MiB 24MiB")
    cards.fail("nvmlDeviceGetMemoryInfo", 4)
    driver.open()
    (instance,) = read(driver).mig_instances or ()
    assert instance.memory_used_bytes is None


def test_a_process_on_a_carved_up_card_is_told_with_its_instances(
    cards: FakeDriver, driver: NvmlDriver, binding: str
) -> None:
    cards.add_gpu("h100-mig", load="loaded")
    cards.set(0, "process 21180", "compute 9 MiB in 10 0")
    driver.open()
    found = {(item.pid, item.gpu_instance, item.compute_instance) for item in read(driver).processes or ()}
    assert found == {(21180, 10, 0), (21181, 2, 0), (21198, 2, 0)}
    cards.set(0, "process 21181", "compute 9 MiB")
    assert {item.gpu_instance for item in read(driver).processes or ()} == {10, 2, None}


def test_where_the_card_may_not_name_its_processes_each_instance_names_its_own(
    cards: FakeDriver, driver: NvmlDriver, binding: str
) -> None:
    cards.add_gpu("h100-mig", load="loaded")
    driver.open()
    before = read(driver).processes
    assert before
    cards.set(0, "mig_process_list", "error 4")
    assert read(driver).processes == before
    cards.set(0, "mig 1", None)
    cards.set(0, "mig_mode", 0)
    assert read(driver).processes is None, "nobody is asked, and nobody is not nothing"


def test_a_vgpu_guest_is_never_asked_for_what_its_kernel_warns_about(
    cards: FakeDriver, tmp_path: Path
) -> None:
    calls: list[str] = []
    cards.add_gpu("h100")
    cards.set(0, "virtualization_mode", 2)
    driver = NvmlDriver(root=tmp_path, announce=calls.append)
    driver.open()
    reading = read(driver)
    assert reading.remap_banks_max is None
    assert reading.ecc_enabled
    assert "nvmlDeviceGetRowRemapperHistogram on gpu 0" not in calls
    driver.close()
