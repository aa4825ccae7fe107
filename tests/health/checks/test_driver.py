from __future__ import annotations

from dataclasses import replace

import pytest

from gpumesh.health.devices import Probe
from gpumesh.model import Verdict
from tests.health.builders import (
    DRIVER,
    HOST,
    UNIX,
    Course,
    absent,
    address,
    answered,
    codes,
    geforce,
    hung,
    only,
)

ON_BUS = (address(0),)


@pytest.mark.parametrize(
    ("probe", "code", "told", "advised"),
    [
        (absent(12, pci_addresses=ON_BUS), "no-library", "libnvidia-ml.so.1", "install"),
        (absent(9, pci_addresses=ON_BUS), "not-loaded", "not loaded", "modprobe nvidia"),
        (absent(9, pci_addresses=None), "not-loaded", "not loaded", "modprobe nvidia"),
        (absent(12, pci_addresses=()), "no-gpu", "no NVIDIA GPU on the PCI bus", "passthrough"),
        (absent(9, pci_addresses=()), "no-gpu", "no NVIDIA GPU on the PCI bus", "passthrough"),
        (absent(4, pci_addresses=ON_BUS), "no-permission", "refuses", "/dev/nvidiactl"),
        (absent(999, "Unknown Error (NVML 999)"), "error", "Unknown Error (NVML 999)", "NVRM"),
        (absent(None, "the prober ended by signal 11"), "error", "signal 11", "kernel's log"),
        (Probe(driver=DRIVER, error="count failed", error_code=999), "error", "count failed", "NVRM"),
    ],
)
def test_each_way_in_which_a_driver_is_missing_says_what_to_do(
    probe: Probe, code: str, told: str, advised: str
) -> None:
    report = Course().look(probe)
    assert report.verdict is Verdict.UNHEALTHY
    assert codes(report) == [f"driver/{code}"]
    assert told in only(report).reason
    assert advised in only(report).advice


def test_nouveau_in_the_drivers_place_is_named() -> None:
    course = Course(host=replace(HOST, is_nouveau_loaded=True))
    finding = only(course.look(absent(9, pci_addresses=ON_BUS)))
    assert finding.evidence["code"] == "nouveau"
    assert "blacklist" in finding.advice


def test_a_driver_without_cards_is_told_on_a_host_that_never_had_any() -> None:
    assert codes(Course().look(answered([], pci_addresses=ON_BUS)))[0] == "driver/empty"
    assert codes(Course().look(answered([], pci_addresses=()))) == ["driver/no-gpu"]


def test_a_driver_without_cards_on_a_host_that_had_some_has_lost_them() -> None:
    course = Course()
    course.look(answered([geforce(0)]))
    report = course.look(answered([]))
    assert report.findings == ()
    assert codes(report.gpus[0]) == ["inventory/lost"]


def test_one_fault_follows_another_without_a_healthy_look_in_between() -> None:
    course = Course()
    course.look(absent(9))
    verdicts = {course.look(probe).verdict for probe in (hung(), absent(18), absent(12), hung())}
    assert verdicts == {Verdict.UNHEALTHY}


def test_since_is_when_the_driver_stopped_answering_even_if_told_later() -> None:
    course = Course()
    first = only(course.look(hung()))
    again = only(course.look(replace(hung(), hung_for_s=65.0), times=3))
    assert again.reason == first.reason
    assert again.since == first.since == UNIX + 100.0 - 5.0
