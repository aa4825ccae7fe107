from __future__ import annotations

from dataclasses import replace

import pytest

from gpumesh.health.devices import Probe
from gpumesh.model import Action, Verdict
from tests.health.builders import DRIVER, HOST, Course, absent, address, answered, codes, geforce, hung, only

UPGRADED = replace(HOST, module_version="535.161.07", library_versions=("535.183.01",))


def test_a_mismatch_is_told_with_the_drivers_words_and_asks_for_a_drain_not_a_kill() -> None:
    """k8s-device-plugin#221, shine-cluster#30: upgraded underneath, yet ready."""
    said = "driver and library differ (NVML 18): kernel module 535.161.07, library 535.183.01"
    course = Course()
    course.look(answered([geforce(0)]))
    report = course.look(absent(18, said))
    finding = only(report)
    assert codes(report) == ["driver-library/mismatch"]
    assert "535.161.07" in finding.reason
    assert "535.183.01" in finding.reason
    assert "drain" in finding.advice
    assert finding.action is Action.REBOOT
    assert report.gpus[0].verdict is Verdict.UNKNOWN


def test_libraries_on_disk_of_another_version_are_told_although_nvml_still_answers() -> None:
    report = Course(host=UPGRADED).look(answered([geforce(0)]))
    assert codes(report) == ["driver-library/upgraded"]
    assert only(report).reason.endswith("kernel module 535.161.07, library 535.183.01")
    assert report.gpus[0].verdict is Verdict.HEALTHY


@pytest.mark.parametrize("probe", [absent(18), answered([], pci_addresses=(address(0),))])
def test_what_a_mismatch_causes_is_told_once(probe: Probe) -> None:
    (finding,) = Course(host=UPGRADED).look(probe).findings
    assert finding.check == "driver-library"


@pytest.mark.parametrize(
    ("probe", "code"),
    [
        (hung(), "driver/hung"),
        (absent(9, pci_addresses=(address(0),)), "driver/not-loaded"),
        (Probe(driver=DRIVER, error="count failed", error_code=999), "driver/error"),
    ],
)
def test_a_driver_that_does_not_answer_is_the_drivers_matter_whatever_the_files_say(
    probe: Probe, code: str
) -> None:
    assert codes(Course(host=UPGRADED).look(probe)) == [code]


def test_a_host_that_cannot_tell_its_files_versions_is_not_judged() -> None:
    unknown = replace(HOST, module_version=None, library_versions=("535.183.01",))
    assert codes(Course(host=unknown).look(answered([geforce(0)]))) == []
    bare = replace(HOST, module_version="535.161.07", library_versions=())
    assert codes(Course(host=bare).look(answered([geforce(0)]))) == []


def test_a_mismatch_goes_after_clean_looks() -> None:
    course = Course(host=UPGRADED)
    course.look(answered([geforce(0)]))
    course.host = HOST
    assert course.look(answered([geforce(0)]), times=2).verdict is Verdict.UNHEALTHY
    assert course.look(answered([geforce(0)])).verdict is Verdict.HEALTHY
