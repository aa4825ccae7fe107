from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpumesh.config import BaselineConfig, Config
from gpumesh.health import baseline
from gpumesh.health.conditions import CONDITIONS
from gpumesh.health.containers import Containers, Runtime
from gpumesh.health.devices import DeviceState
from gpumesh.health.hostprobe import HostProbe
from gpumesh.model import BaselineItem, Verdict
from tests.health.builders import HOST, Course, absent, answered, codes, geforce, lost, uuid

ALL = baseline.parse(f"[host]\nrequire = {list(CONDITIONS)}\n", "test")


def items(host: HostProbe = HOST, *cards: DeviceState) -> dict[str, BaselineItem]:
    report = Course(baseline=ALL, host=host).look(answered(cards or (geforce(0), geforce(1))))
    assert report.baseline is not None
    return {item.name: item for item in report.baseline.items}


def with_containers(*runtimes: Runtime, devices: tuple[str, ...] | None = ()) -> HostProbe:
    return replace(HOST, containers=Containers(runtimes, devices))


def test_a_host_without_containers_is_asked_for_none() -> None:
    assert set(items()) == {"nouveau", "clock", "persistence"}


def test_nouveau_and_an_unsynchronised_clock_are_not_met() -> None:
    found = items(replace(HOST, is_nouveau_loaded=True, is_clock_synchronised=False))
    assert (found["nouveau"].is_met, found["nouveau"].found) == (False, "loaded")
    assert (found["clock"].is_met, found["clock"].found) == (False, "not synchronised")
    assert "systemd-timesyncd" in found["clock"].advice


@pytest.mark.parametrize(
    ("offset_s", "num_peers", "found"),
    [
        (0.9, 5, "synchronised"),
        (-3.25, 5, "synchronised, 3.2 s ahead of 5 peers"),
        (7200.0, 2, "synchronised, 7200.0 s behind 2 peers"),
        (7200.0, 1, "synchronised"),  # which of the two is wrong?
    ],
)
def test_a_clock_more_than_a_second_off_its_peers_is_not_met(
    offset_s: float, num_peers: int, found: str
) -> None:
    host = replace(HOST, clock_offset_s=offset_s, num_clock_peers=num_peers)
    item = items(host)["clock"]
    assert item.found == found
    assert item.is_met is (found == "synchronised")


def test_what_cannot_be_read_is_neither_met_nor_unmet() -> None:
    found = items(HostProbe(), geforce(0, persistence=None))
    assert {item.is_met for item in found.values()} == {None}
    assert {item.found for item in found.values()} == {None}


def test_persistence_names_the_cards_on_which_it_is_off() -> None:
    found = items(HOST, geforce(0, persistence=True), geforce(1, persistence=False))["persistence"]
    assert (found.is_met, found.found) == (False, "off on GPU 1")
    assert items(HOST, geforce(0, persistence=True))["persistence"].is_met is True


def test_runtimes_that_are_installed_must_be_set_up() -> None:
    found = items(
        with_containers(
            Runtime("docker", ""), Runtime("podman", "CDI"), Runtime("containerd", None), devices=("0", "1")
        )
    )
    assert [found[name].is_met for name in ("docker", "podman", "containerd")] == [False, True, None]
    assert found["docker"].found == "not set up for NVIDIA"
    assert "--runtime=docker" in found["docker"].advice


@pytest.mark.parametrize(
    ("devices", "is_met", "told"),
    [
        (("0", "1", "all"), True, "device 0, 1, all"),
        ((uuid(0), uuid(1), "all"), True, ""),
        (("gpu0", "gpu1"), True, ""),
        (("0", "all"), False, "no device for GPU 1"),
        (("0", "1", "2"), False, "names a card that is not here: 2"),
        (("0", "1", "GPU-old"), False, "names a card that is not here: GPU-old"),
        (("0:1", "MIG-1234", "0", "1"), True, ""),
        ((), False, "no nvidia.com/gpu device"),
        (None, None, None),
    ],
)
def test_a_cdi_specification_must_match_the_cards(
    devices: tuple[str, ...] | None, is_met: bool | None, told: str | None
) -> None:
    found = items(with_containers(Runtime("podman", ""), devices=devices))["cdi"]
    assert found.is_met is is_met
    assert (told or "") in (found.found or "")
    assert (found.found is None) == (told is None)


def test_a_lost_card_makes_no_specification_wrong() -> None:
    course = Course(baseline=ALL, host=with_containers(Runtime("podman", "CDI"), devices=(uuid(0), uuid(1))))
    course.look(answered([geforce(0), geforce(1)]))
    for devices in ((uuid(0), uuid(1)), (uuid(0),)):
        course.host = with_containers(Runtime("podman", "CDI"), devices=devices)
        report = course.look(answered([geforce(0), lost(1)]))
        assert report.baseline is not None
        assert next(item for item in report.baseline.items if item.name == "cdi").is_met is True


def test_cdi_is_not_asked_for_where_docker_has_its_own_runtime() -> None:
    assert "cdi" not in items(with_containers(Runtime("docker", "nvidia runtime")))


def test_without_a_driver_nothing_is_said_of_the_cards() -> None:
    report = Course(baseline=ALL, host=with_containers(Runtime("podman", "CDI"), devices=("0",))).look(
        absent(9)
    )
    assert report.baseline is not None
    met = {item.name: item.is_met for item in report.baseline.items}
    assert (met["persistence"], met["cdi"]) == (None, True)


def test_enforced_an_unmet_condition_takes_the_host_out(tmp_path: Path) -> None:
    path = tmp_path / "baseline.toml"
    path.write_text('[host]\nrequire = ["clock"]\n')
    config = Config(baseline=BaselineConfig(file=str(path), mode="enforce"))
    report = Course(config, host=replace(HOST, is_clock_synchronised=False)).look(answered([geforce(0)]))
    assert codes(report) == ["baseline/unmet-enforced"]
    assert report.verdict is Verdict.UNHEALTHY


def test_the_modern_baseline_that_is_shipped_is_sound() -> None:
    rules = baseline.load(BaselineConfig(file="modern"))
    assert (rules.source, rules.conditions) == ("modern", tuple(CONDITIONS))
    found = {
        "driver": "580.95.05",
        "cuda": "13.0",
        "container-toolkit": "1.18.0",
        "kernel": "6.8.0-60-generic",
    }
    assert all(item.is_met for item in rules.hold(found, "warn").items)
    old = {"driver": "535.183.01", "cuda": "12.2", "container-toolkit": "1.14.3", "kernel": "5.15.0-100"}
    assert not any(item.is_met for item in rules.hold(old, "warn").items)
