from __future__ import annotations

from dataclasses import replace

from gpumesh.model import Reachability, View
from gpumesh.status.outliers import outliers
from tests.samples.fleet import HEALTHY, SELF_ID, host


def fleet(*drivers: str | None) -> View:
    hosts = tuple(
        host(number, health=replace(HEALTHY, driver_version=driver))
        for number, driver in enumerate(drivers, 1)
    )
    return View(SELF_ID, 1000.0, "cafe", hosts)


def named(view: View) -> list[tuple[object, object]]:
    return [(item["host"], item["item"]) for item in outliers(view)]


def test_the_host_with_another_driver_is_named_with_what_most_have() -> None:
    (found,) = outliers(fleet("550.54.14", "550.54.14", "535.183.01", "550.54.14"))
    assert found == {
        "host_id": "3" * 8 + SELF_ID[8:],
        "host": "pc03",
        "item": "driver",
        "found": "535.183.01",
        "most": "550.54.14",
        "num_most": 3,
        "num_known": 4,
    }


def test_a_fleet_that_is_split_or_small_has_no_outliers() -> None:
    assert named(fleet("550.54.14", "550.54.14", "535.183.01", "535.183.01")) == []
    assert named(fleet("550.54.14", "535.183.01")) == []
    assert named(fleet("1", "2", "3", "4")) == []


def test_hosts_that_say_nothing_and_hosts_that_are_gone_do_not_count() -> None:
    view = fleet("550.54.14", "550.54.14", "550.54.14", None, "535.183.01")
    assert named(view) == [("pc05", "driver")]
    gone = replace(view.hosts[4], reachability=Reachability.FAILED)
    assert named(replace(view, hosts=(*view.hosts[:4], gone))) == []


def test_kernel_and_container_toolkit_are_compared_too() -> None:
    view = fleet(*["550.54.14"] * 4)
    facts, health = view.hosts[1].facts, view.hosts[2].health
    assert facts is not None
    assert health is not None
    assert health.baseline is not None
    items = [
        replace(item, found="1.17.8" if item.name == "container-toolkit" else item.found)
        for item in health.baseline.items
    ]
    newer = replace(health, baseline=replace(health.baseline, items=tuple(items)))
    older = replace(
        newer, baseline=replace(health.baseline, items=(*items[:1], replace(items[1], found="1.14")))
    )
    hosts = (
        replace(view.hosts[0], health=newer),
        replace(view.hosts[1], health=newer, facts=replace(facts, kernel="6.8.0-60-generic")),
        replace(view.hosts[2], health=newer),
        replace(view.hosts[3], health=older),
    )
    assert named(replace(view, hosts=hosts)) == [("pc04", "container-toolkit"), ("pc02", "kernel")]
