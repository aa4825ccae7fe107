"""Xids as the driver's events tell them, each once and by its own card."""

from __future__ import annotations

from pathlib import Path

from gpumesh.health.nvml import NvmlDriver
from gpumesh.health.nvml_events import MAX_EVENTS
from tests.fakes.nvml.fixtures import read
from tests.fakes.nvml.state import FakeDriver


def xids(driver: NvmlDriver, index: int = 0) -> tuple[int, ...]:
    return driver.probe_device(index).xids


def test_an_xid_is_told_once_and_by_its_own_card(cards: FakeDriver, driver: NvmlDriver, binding: str) -> None:
    cards.add_gpu("h100")
    cards.add_gpu("h200")
    driver.open()
    assert (xids(driver, 0), xids(driver, 1)) == ((), ())
    cards.xid(1, 31)
    cards.xid(1, 43)
    assert (xids(driver, 0), xids(driver, 1)) == ((), (31, 43))
    assert (xids(driver, 0), xids(driver, 1)) == ((), ())


def test_a_card_that_is_lost_still_tells_the_xid_and_silences_no_other(
    cards: FakeDriver, driver: NvmlDriver
) -> None:
    bad, good = cards.add_gpu("h100"), cards.add_gpu("h100")
    driver.open()
    assert (xids(driver, bad), xids(driver, good)) == ((), ())
    cards.xid(bad, 79)
    cards.lose(bad)
    state = driver.probe_device(bad)
    assert (state.is_lost, state.xids) == (True, (79,))
    cards.xid(good, 31)
    assert (xids(driver, bad), xids(driver, good)) == ((), (31,))
    cards.clear_faults()
    assert xids(driver, bad) == ()
    cards.xid(bad, 13)
    assert xids(driver, bad) == (13,), "watched anew since it answers again"


def test_a_card_without_events_is_asked_once_and_read_all_the_same(cards: FakeDriver, tmp_path: Path) -> None:
    calls: list[str] = []
    cards.add_gpu("h100")
    cards.set(0, "event_types", None)
    driver = NvmlDriver(root=tmp_path, announce=calls.append)
    driver.open()
    assert read(driver).temperature_c == 41
    read(driver)
    assert calls.count("nvmlDeviceGetSupportedEventTypes on gpu 0") == 1
    assert "nvmlEventSetWait_v2 on gpu 0" not in calls
    driver.close()


def test_a_flood_of_events_is_taken_in_bounded_bites(cards: FakeDriver, driver: NvmlDriver) -> None:
    cards.add_gpu("h100")
    driver.open()
    assert xids(driver) == ()
    lines = "".join(f"xid gpu 0 31 {number}\n" for number in range(1, MAX_EVENTS + 11))
    cards.path.write_text(cards.text() + lines)
    assert [len(xids(driver)) for _ in range(3)] == [MAX_EVENTS, 10, 0]


def test_closing_lets_go_of_the_event_sets(cards: FakeDriver, tmp_path: Path) -> None:
    calls: list[str] = []
    cards.add_gpu("h100")
    driver = NvmlDriver(root=tmp_path, announce=calls.append)
    driver.open()
    read(driver)
    driver.close()
    assert calls[-2:] == ["nvmlEventSetFree on gpu 0", "nvmlShutdown"]
