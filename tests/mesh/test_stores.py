"""What one host's brain keeps is bounded; size and limit of it stand in the metrics and in the manual."""

from __future__ import annotations

import re
from pathlib import Path

from gpumesh.mesh.arrivals import MAX_WAITING
from gpumesh.mesh.events import MAX_EVENTS
from gpumesh.model import Address, Event, Reachability
from gpumesh.status.metrics import mesh_exposition
from gpumesh.swim.frames import Row
from gpumesh.swim.ports import MemberChanged
from gpumesh.swim.statement import Statement
from tests.mesh.conftest import Host, World
from tests.samples.fleet import sample_probe, sample_view

PAGE = Path(__file__).parents[2] / "docs" / "membership.md"
ROW = re.compile(r"^\| `(?P<name>[a-z_/]+)` \| (?P<limit>[\d,]+) \|", re.MULTILINE)
ALIVE = Reachability.ALIVE


def identity(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def test_every_store_has_a_size_and_a_limit_in_the_metrics(fleet: list[Host]) -> None:
    mesh = fleet[0].mesh
    assert mesh.queue_sizes.keys() == mesh.queue_limits.keys()
    text = mesh_exposition(sample_view(), sample_probe(), mesh.counters)
    for name, limit in mesh.queue_limits.items():
        flat = name.replace("/", "_")
        assert f"\ngpumesh_size_{flat} {mesh.queue_sizes[name]}\n" in text
        assert f"\ngpumesh_limit_{flat} {limit}\n" in text
        assert f"# HELP gpumesh_limit_{flat} Most entries" in text


def test_the_manual_lists_every_store_of_the_mesh_with_its_limit(fleet: list[Host]) -> None:
    table = PAGE.read_text(encoding="utf-8").partition("<!-- stores -->")[2].partition("<!-- end -->")[0]
    listed = {row["name"]: int(row["limit"].replace(",", "")) for row in ROW.finditer(table)}
    limits = dict(fleet[0].mesh.queue_limits)
    assert {name: listed.get(name) for name in limits} == limits


def test_stores_of_a_fleet_at_rest_are_within_their_limits(world: World, fleet: list[Host]) -> None:
    world.run(60.0)
    for host in fleet:
        limits = host.mesh.queue_limits
        assert {name for name, size in host.mesh.queue_sizes.items() if size > limits[name]} == set()
        assert host.mesh.queue_sizes["roster_states"] == len(fleet)


def test_events_that_nobody_reads_give_way(fleet: list[Host]) -> None:
    mesh = fleet[0].mesh
    for number in range(MAX_EVENTS + 10):
        mesh._events.put(Event("xid", 0.0, "id", "host", "host", str(number)))
    assert mesh.queue_sizes["events"] == mesh.queue_limits["events"] == MAX_EVENTS
    assert mesh.counters["events_dropped_total"] >= 10


def test_arrivals_beyond_the_limit_are_told_at_once(world: World, fleet: list[Host]) -> None:
    mesh = fleet[0].mesh
    for number in range(MAX_WAITING + 10):
        met = MemberChanged(identity(number + 100), Address("10.3.0.1", 1), 1, 0, None, ALIVE, "met")
        mesh._news.handle_member(met, world.now, 0.0)
    assert mesh.queue_sizes["arrivals"] == mesh.queue_limits["arrivals"] == MAX_WAITING


def test_a_crowd_of_members_and_of_records_stops_at_the_limits(
    world: World,
) -> None:
    host = world.start(0)
    swim = host.mesh._swim
    swim._context.table._limit = limit = 20
    for number in range(60):
        statement = Statement(ALIVE, identity(number + 100), 1, 0, Address(f"10.4.0.{number + 1}", 1))
        swim._intake.handle_row(Row(statement, 0), world.now, is_joining=False)
    host.mesh.handle_timer(world.now)
    world.run(12.0)
    sizes = host.mesh.queue_sizes
    assert sizes["swim/members"] == limit
    assert sizes["leases"] == limit
    assert sizes["roster_states"] == limit + 1, "its own state, too"
    assert sizes["roster_reasons"] <= limit + 1
    assert sizes["roster_records"] <= host.mesh.queue_limits["roster_records"]


def test_what_is_kept_of_a_host_goes_with_it(world: World, fleet: list[Host]) -> None:
    gone = fleet[3]
    mesh = fleet[0].mesh
    world.cut_power(gone)
    world.run(60.0)
    for host in fleet[:3]:
        swim = host.mesh._swim
        member = swim._context.table.get(gone.host_id)
        assert member is not None
        swim._belief.forget(member)
    world.run(20.0)
    sizes = mesh.queue_sizes
    assert sizes["roster_states"] == sizes["roster_records"] == 3
    assert sizes["leases"] == sizes["roster_reasons"] == 2
    assert sizes["records/hosts"] == 3
    assert sizes["strangers"] == 0
