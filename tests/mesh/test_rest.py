"""What a host does while nothing happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumesh.config import Config, LeaseConfig

if TYPE_CHECKING:
    from tests.mesh.conftest import Host, World


def test_at_rest_heartbeats_come_along_with_probes_and_wake_nobody_by_themselves(
    world: World, fleet: list[Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = fleet[0].mesh
    world.run(60.0)
    wakes: list[float] = []
    handle_timer = mesh.handle_timer

    def count(now: float) -> None:
        if mesh.next_deadline() <= now:  # the deadlines of answered probes are met here, too, and do nothing
            wakes.append(now)
        handle_timer(now)

    monkeypatch.setattr(mesh, "handle_timer", count)
    beat, pings = mesh.members()[0].beat, mesh.counters["sent/ping"]
    world.run(200.0)
    num_pings = mesh.counters["sent/ping"] - pings
    assert 190 <= num_pings <= 201
    assert 200 / 5.25 - 1 <= mesh.members()[0].beat - beat <= 200 / 5.0 + 1
    assert len(wakes) <= num_pings + 10, "a push/pull now and then; forty beats"


@pytest.mark.parametrize(("failures", "ttl_s"), [(1, 1.0), (2, 1.0), (2, 1.04), (3, 30.0)])
def test_a_heartbeat_that_is_late_by_its_slack_is_no_sleep(world: World, failures: int, ttl_s: float) -> None:
    lease = LeaseConfig(heartbeat_s=0.5, failures=failures, ttl_s=ttl_s)  # more often than a probe
    host = world.start(0, seeds=(), config=Config(lease=lease), has_health=False)
    world.run(100.0)
    assert host.mesh.counters.get("sleeps_total", 0) == 0
