from __future__ import annotations

from dataclasses import replace

from gpumesh.config import Config, GpuConfig
from gpumesh.health.inventory import Inventory
from gpumesh.model import Severity, Verdict
from tests.health.builders import Course, address, answered, codes, geforce, lost, only, uuid


def test_a_card_that_the_driver_no_longer_lists_is_lost_at_once() -> None:
    course = Course()
    course.look(answered([geforce(0), geforce(1)]))
    gpu = course.look(answered([geforce(0)])).gpus[1]
    assert codes(gpu) == ["inventory/lost"]
    assert gpu.verdict is Verdict.UNHEALTHY
    assert "no longer lists it; it is gone from the PCI bus" in only(gpu).reason
    assert "gpu.expected" in only(gpu).advice


def test_a_lost_card_that_is_still_on_the_bus_is_said_to_be_there_and_its_host_is_not_blamed() -> None:
    course = Course()
    course.look(answered([geforce(0), geforce(1)]))
    bus = (address(0), address(1))
    report = course.look(answered([geforce(0)], pci_addresses=bus), times=20)
    assert "still on the PCI bus" in only(report.gpus[1]).reason
    assert report.findings == ()


def test_the_bus_lists_more_cards_than_the_driver() -> None:
    """NVSentinel#684: a card on the PCI bus that the driver never took was nobody's fault."""
    course = Course()
    probe = answered([geforce(0)], pci_addresses=(address(0), address(5)))
    assert course.look(probe).verdict is Verdict.HEALTHY
    report = course.look_for(probe, 30)
    assert codes(report) == ["inventory/pci"]
    assert address(5) in only(report).reason
    assert report.verdict is Verdict.DEGRADED
    assert report.gpus[0].verdict is Verdict.HEALTHY


def test_an_unreadable_bus_proves_nothing() -> None:
    course = Course()
    course.look(answered([geforce(0), geforce(1)], pci_addresses=None))
    report = course.look(answered([geforce(0)], pci_addresses=None), times=20)
    assert report.findings == ()
    assert "PCI bus" not in only(report.gpus[1]).reason


def test_indices_that_shift_when_a_card_goes_move_no_blame() -> None:
    course = Course()
    course.look(answered([geforce(0), geforce(1), geforce(2)]))
    shifted = replace(geforce(2), index=1)
    assert shifted.info is not None
    shifted = replace(shifted, info=replace(shifted.info, index=1))
    report = course.look(answered([geforce(0), shifted]))
    by_uuid = {gpu.uuid: gpu for gpu in report.gpus}
    assert by_uuid[uuid(1)].verdict is Verdict.UNHEALTHY
    assert by_uuid[uuid(2)].verdict is Verdict.HEALTHY
    assert by_uuid[uuid(2)].index == 1


def test_a_moved_card_is_told_for_a_day_and_stays_healthy() -> None:
    course = Course()
    course.look(answered([geforce(0)]))
    moved = answered([geforce(0, pci_bus_id=address(7))])
    gpu = course.look(moved).gpus[0]
    assert codes(gpu) == ["inventory/moved"]
    assert only(gpu).evidence["from"] == address(0)
    assert gpu.verdict is Verdict.HEALTHY
    course.interval_s = 25.0
    assert codes(course.look_for(moved, 23 * 3600).gpus[0]) == ["inventory/moved"]
    assert codes(course.look_for(moved, 2 * 3600).gpus[0]) == []


def test_a_card_that_was_never_here_is_told_but_the_first_look_tells_none() -> None:
    course = Course()
    assert codes(course.look(answered([geforce(0)])).gpus[0]) == []
    report = course.look(answered([geforce(0), geforce(1)]))
    assert [codes(gpu) for gpu in report.gpus] == [[], ["inventory/added"]]
    assert only(report.gpus[1]).severity is Severity.INFO


def test_a_card_in_the_slot_of_another_takes_its_place() -> None:
    course = Course()
    course.look(answered([geforce(0), geforce(1)]))
    other = geforce(9, index=1, pci_bus_id=address(1), name="NVIDIA GeForce GTX 1060")
    report = course.look(answered([geforce(0), replace(other, index=1)]))
    assert [gpu.uuid for gpu in report.gpus] == [uuid(0), uuid(9)]
    assert codes(report.gpus[1]) == ["inventory/replaced"]
    assert "in place of NVIDIA GeForce RTX 4080 SUPER" in only(report.gpus[1]).reason


def test_two_cards_with_one_uuid_make_it_unhealthy() -> None:
    twin = geforce(1, uuid=uuid(0))
    report = Course().look(answered([geforce(0), twin]))
    assert [gpu.uuid for gpu in report.gpus] == [uuid(0)]
    assert codes(report.gpus[0]) == ["inventory/duplicate"]
    assert report.gpus[0].verdict is Verdict.UNHEALTHY


def test_fewer_cards_than_expected_degrade_a_host_that_never_saw_them() -> None:
    report = Course(Config(gpu=GpuConfig(expected=4))).look(answered([geforce(0), geforce(1)]))
    assert codes(report) == ["inventory/expected"]
    assert only(report).reason == "2 of 4 expected GPUs are here"
    assert report.verdict is Verdict.DEGRADED


def test_an_expected_card_that_is_told_as_lost_is_not_told_twice() -> None:
    course = Course(Config(gpu=GpuConfig(expected=2)))
    course.look(answered([geforce(0), geforce(1)]))
    report = course.look(answered([geforce(0)]))
    assert report.findings == ()
    assert codes(report.gpus[1]) == ["inventory/lost"]


def test_more_cards_than_expected_are_told() -> None:
    report = Course(Config(gpu=GpuConfig(expected=1))).look(answered([geforce(0), geforce(1)]))
    assert codes(report) == ["inventory/more-than-expected"]
    assert report.verdict is Verdict.HEALTHY


def test_a_handle_that_no_known_card_explains_is_the_hosts_finding() -> None:
    report = Course().look(answered([geforce(0), lost(1, is_named=False)]))
    assert codes(report) == ["inventory/handle"]
    assert "index 1" in only(report).reason
    assert report.verdict is Verdict.DEGRADED
    assert report.gpus[0].verdict is Verdict.HEALTHY


def test_fewer_handles_than_the_driver_counts_are_told() -> None:
    report = Course().look(answered([geforce(0)], num_devices=2))
    assert codes(report) == ["inventory/handle"]
    assert "counts 2 GPUs but gives 1" in only(report).reason


def test_a_nameless_handle_goes_to_the_absent_card_of_its_index() -> None:
    course = Course()
    course.look(answered([geforce(0), geforce(1), geforce(2)]))
    report = course.look(answered([lost(0, is_named=False), lost(1, is_named=False), geforce(2)]))
    assert [gpu.verdict for gpu in report.gpus] == [Verdict.UNHEALTHY, Verdict.UNHEALTHY, Verdict.HEALTHY]
    assert report.findings == ()


def test_a_damaged_inventory_is_told_and_changes_nothing_else() -> None:
    report = Course(inventory=Inventory.from_json({"cards": None})).look(answered([geforce(0)]))
    assert codes(report) == ["inventory/file"]
    assert report.verdict is Verdict.HEALTHY
