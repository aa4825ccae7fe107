from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpumesh.config import BaselineConfig, Config
from gpumesh.errors import ConfigError
from gpumesh.health import baseline
from gpumesh.health.baseline import NOT_INSTALLED, BaselineRules
from gpumesh.model import Severity, Verdict
from tests.health.builders import DRIVER, HOST, Course, answered, codes, geforce

ENFORCED = Config(baseline=BaselineConfig(mode="enforce"))
CAFE = replace(DRIVER, driver_version="595.71.05", cuda_version="13.2")


def held(name: str, found: str | None, rules: BaselineRules | None = None) -> bool | None:
    outcome = (rules or baseline.shipped("")).hold({name: found}, "warn")
    return next(item for item in outcome.items if item.name == name).is_met


@pytest.mark.parametrize(
    ("item", "found", "is_met"),
    [
        ("driver", "535.154.05", True),
        ("driver", "535.183.01", True),
        ("driver", "535.54.03", False),
        ("driver", "550.54.14", True),
        ("driver", "550.40.07", False),
        ("driver", "545.29.06", False),
        ("driver", "595.71.05", False),
        ("driver", None, None),
        ("driver", "unreadable", None),
        ("cuda", "12.2", True),
        ("cuda", "12.4", True),
        ("cuda", "12.3", False),
        ("cuda", "13.2", False),
        ("container-toolkit", "1.14.3", True),
        ("container-toolkit", "1.9.0", False),
        ("container-toolkit", "2.0.0", True),
        ("container-toolkit", "1.17.4-1", True),
        ("container-toolkit", NOT_INSTALLED, False),
        ("kernel", "5.15.0-185-generic", True),
        ("kernel", "6.1.0-18-amd64", True),
        ("kernel", "6.10.3-1-amd64", False),
        ("kernel", "5.4.0-200-generic", False),
    ],
)
def test_the_built_in_baseline(item: str, found: str | None, is_met: bool | None) -> None:
    assert held(item, found) is is_met


def test_the_built_in_baseline_holds_what_it_is_documented_to() -> None:
    rules = {rule.name: rule for rule in baseline.shipped("").items}
    assert rules["driver"].accept == ("535.154.05", "550.54.14")
    assert rules["cuda"].accept == ("12.2", "12.4")
    assert rules["container-toolkit"].minimum == "1.14.3"
    assert rules["kernel"].accept == ("5.15", "6.1")


def test_newer_branches_are_met_when_the_file_says_so() -> None:
    rules = baseline.parse('[driver]\naccept = ["535.154.05"]\nallow_newer = true\n', "x.toml")
    assert held("driver", "595.71.05", rules) is True
    assert held("driver", "530.30.02", rules) is False
    assert held("driver", "535.54.03", rules) is False


def test_in_warn_mode_a_newer_driver_is_told_and_changes_nothing() -> None:
    report = Course().look(answered([geforce(0)], driver=CAFE))
    assert codes(report) == ["baseline/unmet", "baseline/unmet"]
    assert {finding.severity for finding in report.findings} == {Severity.INFO}
    assert report.verdict is Verdict.HEALTHY
    driver = next(finding for finding in report.findings if finding.evidence["item"] == "driver")
    assert driver.reason == (
        "driver is 595.71.05; the baseline expects 535.154.05+ or 550.54.14+ (same branch)"
    )
    assert driver.advice.startswith("install NVIDIA driver 535.154.05+")


def test_in_enforce_mode_the_host_takes_no_work_until_it_is_met() -> None:
    course = Course(ENFORCED)
    report = course.look(answered([geforce(0)], driver=CAFE))
    assert report.verdict is Verdict.UNHEALTHY
    assert codes(report) == ["baseline/unmet-enforced", "baseline/unmet-enforced"]
    assert course.look(answered([geforce(0)]), times=3).verdict is Verdict.HEALTHY


def test_in_enforce_mode_what_cannot_be_read_is_not_taken_for_met() -> None:
    report = Course(ENFORCED, host=replace(HOST, toolkit_version=None)).look(answered([geforce(0)]))
    assert codes(report) == ["baseline/unknown-enforced"]
    assert report.verdict is Verdict.DEGRADED


def test_a_toolkit_that_is_not_installed_is_told_by_that_word() -> None:
    report = Course(host=replace(HOST, toolkit_version="")).look(answered([geforce(0)]))
    assert "container-toolkit is not installed" in report.findings[0].reason
    assert report.baseline is not None
    met = {item.name: item.is_met for item in report.baseline.items}
    assert met["container-toolkit"] is False
    assert set(met.values()) == {True, False}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[driver", "is not TOML"),
        ("[divers]\n", "[divers]: unknown item; known: driver"),
        ("host = 1\n", "host: must be a section with the one key require"),
        ("[host]\nrequires = []\n", "host: must be a section with the one key require"),
        ('[host]\nrequire = ["dokcer"]\n', "host.require: must be a list of nouveau, clock"),
        ('[host]\nrequire = "docker"\n', "host.require: must be a list of nouveau, clock"),
        ("driver = 5\n", "driver: must be a section"),
        ('[driver]\nacept = ["1"]\n', "driver.acept: unknown key"),
        ("[driver]\n", "driver: needs either accept"),
        ('[driver]\naccept = ["535"]\nminimum = "535"\n', "driver: needs either accept"),
        ('[driver]\naccept = "535"\n', "driver.accept: must be a list"),
        ("[cuda]\naccept = [12.2]\n", "cuda.accept = 12.2: must be a version in quotes"),
        ('[kernel]\nminimum = "latest"\n', "kernel.minimum = 'latest'"),
        ('[kernel]\naccept = ["6.1"]\nallow_newer = 1\n', "kernel.allow_newer"),
        ('[kernel]\nminimum = "6.1"\nallow_newer = true\n', "kernel.allow_newer"),
        (f"[kernel]\naccept = {['6.1'] * 33}\n", "kernel.accept: must be a list of at most 32"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_key(content: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "baseline.toml"
    path.write_text(content)
    with pytest.raises(ConfigError) as raised:
        baseline.load(BaselineConfig(file=str(path)))
    assert str(raised.value).startswith(f"{path}: ")
    assert told in str(raised.value)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        baseline.load(BaselineConfig(file=str(tmp_path / "none.toml")))
    odd = tmp_path / "odd.toml"
    odd.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        baseline.load(BaselineConfig(file=str(odd)))
    odd.write_bytes(b"#" * (baseline.MAX_BYTES + 1))
    with pytest.raises(ConfigError, match="larger than"):
        baseline.load(BaselineConfig(file=str(odd)))


def test_a_file_replaces_the_built_in_baseline_whole(tmp_path: Path) -> None:
    path = tmp_path / "baseline.toml"
    path.write_text('[kernel]\nminimum = "6.1"\n')
    course = Course(Config(baseline=BaselineConfig(file=str(path))))
    report = course.look(answered([geforce(0)], driver=CAFE))
    assert report.findings == ()
    assert report.baseline is not None
    assert report.baseline.source == str(path)
    assert [item.name for item in report.baseline.items] == ["kernel"]
