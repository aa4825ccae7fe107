from __future__ import annotations

from random import Random

import pytest

from gpumesh.records.clocks import MAX_PEERS, WINDOW_S, ClockOffset, PeerClocks


def test_without_peers_nothing_is_known() -> None:
    assert PeerClocks().offset(0.0) is None


def test_the_least_delayed_of_several_words_counts() -> None:
    clocks, random = PeerClocks(), Random(1)
    for number in range(40):
        clocks.note("a", 3.0 - random.expovariate(2.0), 1.0 * number)
    found = clocks.offset(40.0)
    assert found is not None
    assert found.offset_s == pytest.approx(3.0, abs=0.2)


def test_one_wrong_clock_among_three_is_left_out() -> None:
    clocks = PeerClocks()
    for peer, ahead_s in (("a", 0.01), ("b", 7200.0), ("c", -0.02)):
        clocks.note(peer, ahead_s, 0.0)
    assert clocks.offset(1.0) == ClockOffset(-0.02, 3)


def test_of_two_peers_the_nearer_one_is_believed() -> None:
    clocks = PeerClocks()
    clocks.note("a", 90.0, 0.0)
    clocks.note("b", 0.0, 0.0)
    assert clocks.offset(1.0) == ClockOffset(0.0, 2)


def test_a_clock_that_was_set_right_is_believed_after_two_windows() -> None:
    clocks = PeerClocks()
    clocks.note("a", 5.0, 0.0)
    at = 0.0
    while at < 2 * WINDOW_S + 1:
        at += 10.0
        clocks.note("a", 0.0, at)
    assert clocks.offset(at) == ClockOffset(0.0, 1)


def test_peers_not_heard_of_late_do_not_count_and_are_bounded() -> None:
    clocks = PeerClocks()
    for number in range(3 * MAX_PEERS):
        clocks.note(str(number), 1.0, 0.0)
    assert len(clocks) == MAX_PEERS
    assert clocks.offset(2 * WINDOW_S) is None


def test_setting_this_hosts_own_clock_begins_anew() -> None:
    clocks = PeerClocks()
    clocks.note("a", 3600.0, 0.0)
    clocks.forget()
    assert clocks.offset(0.0) is None
