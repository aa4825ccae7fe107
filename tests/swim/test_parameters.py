from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.errors import ConfigError
from gpumesh.swim.parameters import (
    LAN,
    PROFILES,
    Parameters,
    reclaim_interval,
    retransmit_limit,
    suspicion_bounds,
    suspicion_timeout,
    sync_interval,
)


def test_lan_profile_probes_and_gossips_as_the_peers_do_but_judges_by_corroboration() -> None:
    lan = Parameters.for_profile("lan")
    assert (lan.probe_interval_s, lan.probe_timeout_s, lan.num_indirect) == (1.0, 0.5, 3)
    assert (lan.gossip_interval_s, lan.gossip_fanout, lan.sync_interval_s) == (0.2, 3, 30.0)
    assert (lan.suspicion_mult, lan.suspicion_max_mult, lan.retransmit_mult, lan.awareness_max) == (
        2,
        6,
        4,
        8,
    )
    assert lan.num_corroborators > lan.num_confirmations == 3
    assert lan.weighs_evidence
    assert lan.tells_suspects
    assert lan.datagram_bytes == 1232


def test_local_profile_is_about_five_times_faster_and_wan_slower() -> None:
    assert PROFILES["local"].probe_interval_s * 5 == LAN.probe_interval_s
    assert PROFILES["wan"].probe_interval_s > LAN.probe_interval_s


def test_unknown_profile_names_the_key_and_the_choices() -> None:
    with pytest.raises(ConfigError, match=r"gossip\.profile.*lan, local, wan"):
        Parameters.for_profile("fast")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("probe_timeout_s", 1.0),
        ("probe_timeout_s", 0.0),
        ("probe_interval_s", float("nan")),
        ("probe_interval_s", float("inf")),
        ("nack_fraction", 1.0),
        ("gossip_interval_s", 0.0),
        ("idle_gossip_interval_s", 0.1),
        ("suspicion_mult", 0.5),
        ("suspicion_max_mult", 0.5),
        ("awareness_max", 0),
        ("datagram_bytes", 100),
        ("passenger_bytes", 700),
        ("reclaim_interval_s", 100.0),
        ("num_members", 1),
        ("num_streams", -1),
    ],
)
def test_a_setting_out_of_bounds_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=name):
        replace(LAN, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "shortest_s"), [(1, 3.0), (10, 3.0), (100, 4.0), (1000, 6.0)])
def test_suspicion_grows_with_the_logarithm_of_the_fleet(count: int, shortest_s: float) -> None:
    assert suspicion_bounds(LAN, count) == pytest.approx((shortest_s, 6 * shortest_s))


def test_suspicion_shrinks_from_longest_to_shortest_with_confirmations() -> None:
    timeouts = [suspicion_timeout(4.0, 24.0, confirmed, 2) for confirmed in range(4)]
    assert timeouts[0] == 24.0
    assert timeouts[1] == pytest.approx(24 - 20 * math.log(2) / math.log(3))
    assert timeouts[2:] == pytest.approx([4.0, 4.0])


def test_suspicion_with_nobody_to_confirm_is_the_shortest() -> None:
    assert suspicion_timeout(4.0, 24.0, 0, 0) == 4.0


@given(st.integers(0, 50), st.integers(0, 16))
def test_suspicion_never_leaves_its_bounds(confirmed: int, wanted: int) -> None:
    assert 4.0 <= suspicion_timeout(4.0, 24.0, confirmed, wanted) <= 24.0


@pytest.mark.parametrize(("count", "limit"), [(1, 4), (9, 4), (10, 8), (99, 8), (100, 12)])
def test_retransmissions_grow_with_the_logarithm_of_the_fleet(count: int, limit: int) -> None:
    assert retransmit_limit(4, count) == limit


@pytest.mark.parametrize(("count", "interval_s"), [(2, 30), (32, 30), (33, 60), (128, 90), (4096, 240)])
def test_syncs_grow_rarer_in_larger_fleets(count: int, interval_s: float) -> None:
    assert sync_interval(30.0, count) == interval_s


def test_a_fleet_tries_each_failed_member_about_once_in_the_base_interval() -> None:
    assert reclaim_interval(LAN, num_live=4, num_failed=4) == 5.0
    assert reclaim_interval(LAN, num_live=8, num_failed=1) == 40.0
    assert reclaim_interval(LAN, num_live=1, num_failed=999) == LAN.probe_interval_s
    assert reclaim_interval(LAN, num_live=1000, num_failed=1) == LAN.reclaim_max_s
