from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from gpumesh.model import Address, Reachability
from gpumesh.swim.member import Member
from gpumesh.swim.order import ProbeOrder
from gpumesh.swim.table import MemberTable
from tests.swim.link import host_id


def member(number: int, now: float = 0.0) -> Member:
    return Member(host_id(number), Address("10.0.0.1", number + 1), 1, 0, now)


def table_of(count: int, limit: int = 100) -> MemberTable:
    table = MemberTable(limit)
    for number in range(count):
        table.add(member(number))
    return table


def turn(table: MemberTable, number: int, state: Reachability, now: float = 1.0) -> Member:
    row = table.get(host_id(number))
    assert row is not None
    row.turn(state, row.epoch, row.incarnation, now)
    table.settle(row)
    return row


def test_draw_gives_different_live_members_without_the_one_left_out() -> None:
    table = table_of(6)
    turn(table, 0, Reachability.FAILED)
    for seed in range(20):
        drawn = [row.host_id for row in table.draw(Random(seed), 3, but=host_id(1))]
        assert len(set(drawn)) == 3
        assert not {host_id(0), host_id(1)} & set(drawn)


def test_draw_is_even() -> None:
    table = table_of(5)
    random = Random(1)
    counts = Counter(row.host_id for _ in range(5000) for row in table.draw(random, 1, but=host_id(0)))
    assert len(counts) == 4
    assert max(counts.values()) < 1.2 * min(counts.values())


def test_failed_and_live_are_counted_apart() -> None:
    table = table_of(4)
    turn(table, 0, Reachability.FAILED)
    turn(table, 1, Reachability.LEFT)
    turn(table, 2, Reachability.SUSPECT)
    assert (table.num_live, table.num_failed, len(table)) == (2, 1, 4)
    failed = table.draw_failed(Random(1))
    assert failed is not None
    assert failed.host_id == host_id(0)


def test_memberlist_253_a_full_table_gives_up_left_then_longest_failed() -> None:
    table = table_of(4, limit=4)
    turn(table, 1, Reachability.FAILED, now=1.0)
    turn(table, 2, Reachability.FAILED, now=2.0)
    turn(table, 3, Reachability.LEFT, now=3.0)
    evicted = [table.add(member(10 + number)) for number in range(3)]
    assert [row.host_id for row in evicted if row] == [host_id(3), host_id(1), host_id(2)]
    with pytest.raises(OverflowError, match="4 live members"):
        table.add(member(20))
    assert len(table) == 4


def test_gone_members_expire_by_their_own_times() -> None:
    table = table_of(3)
    turn(table, 0, Reachability.FAILED, now=0.0)
    turn(table, 1, Reachability.LEFT, now=0.0)
    assert [row.host_id for row in table.expired(50.0, failed_s=100.0, left_s=50.0)] == [host_id(1)]
    assert len(table.expired(100.0, failed_s=100.0, left_s=50.0)) == 2


def test_an_address_leads_to_its_live_holder() -> None:
    table = table_of(2)
    first, second = table
    turn(table, 0, Reachability.FAILED)
    table.move(second, first.address)
    assert table.at(first.address) is second
    turn(table, 0, Reachability.LEFT)
    assert table.at(first.address) is second
    table.drop(second)
    assert table.at(first.address) is None


def test_each_pass_of_the_order_asks_everybody_once() -> None:
    table = table_of(7)
    order = ProbeOrder(table, Random(3))
    for _ in range(4):
        asked = [order.next(()) for _ in range(7)]
        assert {row.host_id for row in asked if row} == {host_id(number) for number in range(7)}


def test_a_newcomer_is_asked_within_the_running_pass() -> None:
    places = set()
    for seed in range(40):
        table = table_of(5)
        order = ProbeOrder(table, Random(seed))
        order.next(())
        table.add(member(9))
        order.insert(host_id(9))
        asked = [row.host_id for _ in range(5) if (row := order.next(()))]
        assert host_id(9) in asked
        places.add(asked.index(host_id(9)))
    assert places == set(range(5)), "its place in the pass is random"


def test_busy_and_gone_members_are_passed_over() -> None:
    table = table_of(3)
    turn(table, 0, Reachability.FAILED)
    order = ProbeOrder(table, Random(1))
    asked = [order.next({host_id(1)}) for _ in range(3)]
    assert {row.host_id for row in asked if row} == {host_id(2)}
    assert ProbeOrder(MemberTable(16), Random(1)).next(()) is None
