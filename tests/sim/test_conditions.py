from __future__ import annotations

from random import Random

import pytest

from gpumesh.sim.conditions import Conditions, LinkProfile


def share_lost(conditions: Conditions, source: int, target: int) -> float:
    return sum(conditions.loses_datagram(source, target, 100) for _ in range(4000)) / 4000


def test_partition_cuts_between_groups_only() -> None:
    conditions = Conditions(LinkProfile(), Random(1))
    conditions.partition([{0, 1}, {2, 3}])
    assert conditions.is_cut(0, 2)
    assert conditions.is_cut(3, 1)
    assert not conditions.is_cut(0, 1)
    assert not conditions.is_cut(0, 9)
    assert conditions.groups == (frozenset({0, 1}), frozenset({2, 3}))
    conditions.heal()
    assert not conditions.is_cut(0, 2)
    assert len(conditions.groups) == 0


def test_loss_is_drawn_at_its_rate() -> None:
    conditions = Conditions(LinkProfile(loss=0.3), Random(2))
    assert share_lost(conditions, 0, 1) == pytest.approx(0.3, abs=0.03)


def test_link_loss_goes_one_way() -> None:
    conditions = Conditions(LinkProfile(), Random(3))
    conditions.link_loss[(0, 1)] = 0.5
    assert share_lost(conditions, 0, 1) == pytest.approx(0.5, abs=0.04)
    assert share_lost(conditions, 1, 0) == 0.0


def test_host_loss_is_told_apart_by_direction() -> None:
    conditions = Conditions(LinkProfile(), Random(4))
    conditions.loss_in[1] = 1.0
    conditions.loss_out[2] = 1.0
    assert share_lost(conditions, 0, 1) == 1.0
    assert share_lost(conditions, 1, 0) == 0.0
    assert share_lost(conditions, 2, 0) == 1.0
    assert share_lost(conditions, 0, 2) == 0.0


def test_datagrams_over_the_mtu_vanish_and_filters_pass_streams_only() -> None:
    conditions = Conditions(LinkProfile(mtu_bytes=1280), Random(5))
    assert not conditions.loses_datagram(0, 1, 1280)
    assert conditions.loses_datagram(0, 1, 1281)
    conditions.datagrams_blocked.add(1)
    assert conditions.loses_datagram(0, 1, 10)
    assert not conditions.loses_packet(0, 1)


def test_duplicates_and_reordering_show_in_the_delays() -> None:
    link = LinkProfile(latency_s=0.01, jitter_s=0.0, duplicate=0.25, reorder=0.25, reorder_s=0.5)
    conditions = Conditions(link, Random(6))
    draws = [conditions.draw_datagram_delays_s() for _ in range(4000)]
    assert sum(len(draw) == 2 for draw in draws) / 4000 == pytest.approx(0.25, abs=0.03)
    assert sum(draw[0] > 0.01 for draw in draws) / 4000 == pytest.approx(0.25, abs=0.03)
    assert max(draw[0] for draw in draws) <= 0.51
