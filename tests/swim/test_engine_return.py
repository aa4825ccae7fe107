"""Finding the way back: what was forgotten, what moved, what lost its only seed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpumesh.model import Address, Reachability
from gpumesh.swim.parameters import LAN
from tests.swim.link import Link, joined

ALIVE, FAILED = Reachability.ALIVE, Reachability.FAILED
NOWHERE = Address("192.0.2.1", 7977)


def test_foca_15_a_host_that_everybody_has_forgotten_comes_back() -> None:
    """Cut off for longer than the failed are remembered: the others no longer try it, it tries them."""
    link = joined(4, seed=1, parameters=replace(LAN, failed_retention_s=120.0))
    *others, lost = link.hosts.values()
    link.is_cut = lambda source, target: lost.address in (source, target)
    link.run(600.0)
    assert [host.sees(lost) for host in others] == [None] * 3
    link.is_cut = lambda _source, _target: False
    assert link.run(30.0, until=link.is_whole) < 30.0


def test_foca_15_two_hosts_that_forgot_each_other_meet_again_by_their_seeds() -> None:
    link = joined(2, seed=2, parameters=replace(LAN, failed_retention_s=120.0))
    first, second = link.hosts.values()
    second.seeds = [first.address]
    link.is_cut = lambda _source, _target: True
    link.run(900.0)
    assert first.sees(second) is second.sees(first) is None
    link.is_cut = lambda _source, _target: False
    assert link.run(60.0, until=link.is_whole) < 60.0


def test_libnetwork_1734_a_seed_whose_name_leads_elsewhere_now_is_called_there() -> None:
    link = Link(seed=3)
    seed = link.add(0, seeds=[])
    host = link.add(1, seeds=[NOWHERE])
    link.run(300.0)
    assert host.sees(seed) is None
    host.seeds = [seed.address]  # the shell resolves the name each time the engine wants seeds
    assert link.run(60.0, until=link.is_whole) < LAN.seed_retry_max_s + 2.0


@pytest.mark.parametrize("apart_s", [60.0, 1800.0])
def test_consul_22753_the_only_seed_is_gone_and_the_peers_of_an_earlier_run_lead_back(apart_s: float) -> None:
    link = joined(4, seed=4)
    seed, second, third, last = link.hosts.values()
    cached = [row.address for row in last.engine.members() if row.address != last.address]
    link.kill(last)
    link.kill(seed)
    link.run(apart_s)
    back = link.add(3, epoch=2, address=last.address, seeds=[seed.address, *cached])
    link.run(10.0, until=lambda: link.all_see([second, third], [back], ALIVE))
    assert link.all_see([second, third], [back], ALIVE)
    assert link.all_see([back], [second, third], ALIVE)
