"""When a host wakes, while nothing happens and when something does."""

from __future__ import annotations

from typing import Any

from gpumesh.model import Reachability
from gpumesh.swim.engine import Swim
from tests.swim.link import joined


class Counting:
    """An engine whose timer rounds are counted."""

    def __init__(self, engine: Swim) -> None:
        self.num_timers = 0
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def handle_timer(self, now: float) -> None:
        self.num_timers += 1
        self._engine.handle_timer(now)


def test_a_host_at_rest_wakes_by_timer_hardly_more_than_once_a_probe_round() -> None:
    link = joined(8)
    link.run(40.0)
    counted = []
    for host in link.hosts.values():
        counted.append(Counting(host.engine))
        host.engine = counted[-1]  # type: ignore[assignment]
    link.run(60.0)
    # One round a second carries the idle gossip along; syncs and the reaper come on top.
    assert 0.9 < sum(engine.num_timers for engine in counted) / 60.0 / len(counted) < 1.3


def test_news_does_not_wait_for_the_next_probe_round() -> None:
    link = joined(8)
    link.run(40.0)
    leaving, *others = link.hosts.values()
    leaving.engine.leave(link.now)
    assert link.run(5.0, until=lambda: link.all_see(others, [leaving], Reachability.LEFT)) < 1.0
