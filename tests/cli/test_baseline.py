from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpumesh.health import baseline
from gpumesh.model import Baseline, BaselineItem, HealthReport, Verdict
from tests.cli.conftest import Call
from tests.samples.fleet import HEALTHY, SampleSource, host

MET = Baseline(
    "enforce",
    "/etc/gpumesh/baseline.toml",
    (
        BaselineItem("driver", "550.54.14+ (same branch)", "550.54.14", is_met=True),
        BaselineItem("container-toolkit", "1.14.3 or later", "1.17.8", is_met=True),
        BaselineItem("clock", "synchronised", "synchronised", is_met=True),
    ),
)
UNSET = BaselineItem("docker", "nvidia runtime or CDI", "not set up for NVIDIA", is_met=False, advice="run X")


def holding(source: SampleSource, report: HealthReport) -> None:
    view = source.shown
    source.shown = replace(view, hosts=(replace(view.hosts[0], health=report), *view.hosts[1:]))


def test_expected_found_and_what_to_do_are_shown(api: str, call: Call, source: SampleSource) -> None:
    holding(source, replace(HEALTHY, baseline=replace(MET, items=(*MET.items, UNSET))))
    outcome = call("baseline", "--api", api)
    assert outcome.code == 1
    assert outcome.out.splitlines()[0] == "pc01: 1 item not met (enforce, /etc/gpumesh/baseline.toml)"
    assert (
        "docker             nvidia runtime or CDI     not set up for NVIDIA  no\n    → run X" in outcome.out
    )
    assert json.loads(call("baseline", "--json", "--api", api).out)["items"][3]["met"] is False


def test_a_baseline_that_is_met_is_fine_and_one_not_known_is_not(
    api: str, call: Call, source: SampleSource
) -> None:
    holding(source, replace(HEALTHY, baseline=MET))
    assert call("baseline", "--api", api).code == 0
    unknown = replace(UNSET, found=None, is_met=None)
    holding(source, replace(HEALTHY, baseline=replace(MET, items=(unknown,))))
    outcome = call("baseline", "--api", api)
    assert outcome.code == 1
    assert "unknown" in outcome.out


def test_a_captured_baseline_is_one_that_the_host_meets(
    api: str, call: Call, source: SampleSource, tmp_path: Path
) -> None:
    holding(source, replace(HEALTHY, baseline=replace(MET, items=(*MET.items, UNSET))))
    path = tmp_path / "captured.toml"
    assert call("baseline", "capture", "--out", str(path), "--api", api).code == 0
    rules = baseline.parse(path.read_text(), str(path))
    found: dict[str, str | None] = {
        "driver": "550.54.14",
        "cuda": "12.4",
        "container-toolkit": "1.17.8",
        "kernel": "6.1.0-18-amd64",
    }
    assert [item.name for item in rules.hold(found, "enforce").items] == list(found)
    assert all(item.is_met for item in rules.hold(found, "enforce").items)
    assert rules.conditions == ("clock",)
    again = call("baseline", "capture", "--out", str(path), "--api", api)
    assert again.code == 2
    assert "is there already" in again.err


def test_capture_without_a_file_prints_it(api: str, call: Call) -> None:
    out = call("baseline", "capture", "--api", api).out
    assert out.startswith("# Access baseline taken from pc01 on 2027-01-15.\n")
    assert "# [container-toolkit]: not known on that host" in out
    assert baseline.parse(out, "out").items[0].accept == ("550.54.14",)


def test_no_baseline_is_taken_from_a_bad_host(api: str, call: Call, source: SampleSource) -> None:
    holding(source, HealthReport(Verdict.UNHEALTHY))
    outcome = call("baseline", "capture", "--api", api)
    assert (outcome.code, outcome.out) == (1, "")
    assert "take the baseline from a good host" in outcome.err


def test_hosts_that_differ_from_most_of_the_fleet_are_named(
    api: str, call: Call, source: SampleSource
) -> None:
    assert call("baseline", "--fleet", "--api", api).code == 0
    odd = host(2, health=replace(HEALTHY, driver_version="535.183.01"))
    view = source.shown
    source.shown = replace(view, hosts=(view.hosts[0], odd, *view.hosts[3:], host(6)))
    outcome = call("baseline", "--fleet", "--api", api)
    assert outcome.code == 1
    assert outcome.out.splitlines()[1].split("  ")[0] == "pc02"
    assert "550.54.14 (3 of 4)" in outcome.out


@pytest.mark.parametrize("argv", [["--out", "x"], ["capture", "--fleet"], ["--fleet", "--no-daemon"]])
def test_options_that_do_not_go_together_are_refused(argv: list[str], call: Call) -> None:
    assert call("baseline", *argv).code == 2
