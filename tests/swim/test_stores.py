"""Each store of the engine is filled beyond its limit, and is let go of in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from gpumesh.model import Address, Identity, Reachability
from gpumesh.swim.context import MAX_EVENTS
from gpumesh.swim.engine import Swim
from gpumesh.swim.frames import CHUNK_BYTES, MAX_SUMMARY_BYTES, ROWS_A_PAGE, Row
from gpumesh.swim.order import ProbeOrder
from gpumesh.swim.parameters import LAN, MAX_FRAME_BYTES
from gpumesh.swim.ports import MemberForgotten
from gpumesh.swim.post import MAX_WAITING
from gpumesh.swim.seal import FleetSealer
from gpumesh.swim.statement import Statement
from gpumesh.swim.stores import ACTIONS_A_STREAM
from gpumesh.swim.table import MemberTable
from gpumesh.swim.wire import Gossip, PingReq, Sender, encode_body, encode_head
from tests.swim.link import KEY, QuietPassenger, host_id, joined
from tests.swim.test_table import member

SMALL = replace(
    LAN,
    num_pending=16,
    num_broadcasts=64,
    num_members=32,
    num_streams=8,
    failed_retention_s=200.0,
    left_retention_s=200.0,
)
ALIVE, SUSPECT, FAILED, LEFT = Reachability


def engine() -> Swim:
    return Swim(
        identity=Identity(host_id(0), "host", 1, "boot"),
        address=Address("10.0.0.1", 7977),
        fleet="test",
        parameters=SMALL,
        sealer=FleetSealer(KEY, "test", bytes(16), max_sessions=10),
        passenger=QuietPassenger(),
        random=Random(1),
        now=0.0,
    )


def at(number: int) -> Address:
    return Address(f"10.1.{number // 250}.{number % 250 + 1}", 7977)


def tell(swim: Swim, kind: Reachability, count: int) -> None:
    """Have the engine told of so many hosts in a sync."""
    accuser = host_id(9000) if kind in (SUSPECT, FAILED) else ""
    for number in range(1, count + 1):
        statement = Statement(kind, host_id(number), 1, 0, at(number), accuser)
        swim._intake.handle_row(Row(statement, 5), 0.0, is_joining=False)


def meet(swim: Swim) -> None:
    tell(swim, ALIVE, 2 * SMALL.num_members)


def run(swim: Swim, until: float) -> None:
    while (deadline := swim.next_deadline()) is not None and deadline <= until:
        swim.handle_timer(deadline)
        swim.datagrams_to_send()
        swim._streams.actions.clear()


def ask_many(swim: Swim) -> None:
    for number in range(100):
        swim._probing.ask_seed(at(number), 0.0)


def ask_in_vain(swim: Swim) -> None:
    meet(swim)
    for step in range(40):
        swim._context.awareness.add(-8)
        swim._probing.handle_round(float(step))
        run(swim, float(step))


def come_and_go(swim: Swim) -> None:
    meet(swim)
    for number in range(1000):
        swim._context.newcomers.append(host_id(number % 30 + 1))
        swim._probing.handle_round(0.0)
    for number in range(100):
        swim._probing._order.insert(host_id(number % 30 + 1))


def newcomers(swim: Swim) -> None:
    swim._context.newcomers.extend(host_id(number) for number in range(1000))


def send_errands(swim: Swim) -> None:
    peer = FleetSealer(KEY, "test", bytes([7] * 16))
    for number in range(100):
        head = encode_head(Sender(host_id(1), 1, 0, 0), b"", PingReq(number, host_id(2), at(2)))
        swim.handle_datagram(peer.seal(encode_body(head, [], [])), at(1), 0.0)


def doubt(swim: Swim) -> None:
    for number in range(1000):
        swim._context.doubt(host_id(number), 0.0)


def open_streams(swim: Swim) -> None:
    for number in range(100):
        swim.handle_stream_accepted(at(number), 0.0)


def ask_by_stream(swim: Swim) -> None:
    swim._context.stream_pings.extend((host_id(number), at(number), number) for number in range(100))


def want_syncs(swim: Swim) -> None:
    for number in range(100):
        swim._context.want_sync(host_id(number))


def spread(swim: Swim) -> None:
    meet(swim)
    for number in range(500):
        swim._context.spread(Statement(ALIVE, host_id(number), 1, 0, at(number)), 0.0)


def emit(swim: Swim) -> None:
    for _ in range(MAX_EVENTS + 10):
        swim._context.emit(MemberForgotten(host_id(1)))


def send_much(swim: Swim) -> None:
    for _ in range(MAX_WAITING + 10):
        swim._post.send(Gossip(), at(1), introduces=True)


def speak_in_many_sessions(swim: Swim) -> None:
    for number in range(1, 50):
        peer = FleetSealer(KEY, "test", bytes([number] * 16))
        head = encode_head(Sender(host_id(number), 1, 0, 0), b"", Gossip())
        swim.handle_datagram(peer.seal(encode_body(head, [], [])), at(number), 0.0)


def suspect_and_ask(swim: Swim) -> None:
    tell(swim, SUSPECT, 2 * SMALL.num_members)
    for fill in (ask_many, send_errands, open_streams):
        fill(swim)


FILLERS: dict[str, Callable[[Swim], None]] = {
    "members": meet,
    "members_live": meet,
    "members_failed": lambda swim: tell(swim, FAILED, 100),
    "members_left": lambda swim: tell(swim, LEFT, 100),
    "broadcasts": spread,
    "probes": ask_many,
    "order": come_and_go,
    "probes_late": ask_in_vain,
    "newcomers": newcomers,
    "errands": send_errands,
    "doubts": doubt,
    "streams": open_streams,
    "stream_pings": ask_by_stream,
    "syncs_wanted": want_syncs,
    "events": emit,
    "outbox": send_much,
    "sessions": speak_in_many_sessions,
}
NEAR = {"timers": suspect_and_ask}
"""Filled as far as the others' limits let it, which is less than its own."""
WHOLE = {"stream_actions"}
"""Bounded by what one stream may say; see below."""


def test_every_store_is_filled_here() -> None:
    swim = engine()
    assert set(swim.queue_sizes) == set(swim.queue_limits) == FILLERS.keys() | NEAR.keys() | WHOLE


@pytest.mark.parametrize("name", FILLERS)
def test_a_store_takes_no_more_than_its_limit(name: str) -> None:
    swim = engine()
    FILLERS[name](swim)
    assert swim.queue_sizes[name] == swim.queue_limits[name], "it is full, and not more than full"
    assert all(size <= swim.queue_limits[other] for other, size in swim.queue_sizes.items())


def test_a_fleet_that_died_does_not_flood_the_doubts_and_what_is_not_looked_into_is_counted() -> None:
    swim = engine()
    doubt(swim)
    assert swim.counters["drops/doubts"] == 1000 - swim.queue_limits["doubts"]


def test_timers_are_bounded_by_what_they_are_for() -> None:
    swim = engine()
    suspect_and_ask(swim)
    assert swim.queue_limits["timers"] // 2 < swim.queue_sizes["timers"] <= swim.queue_limits["timers"]


@pytest.mark.parametrize("name", [*FILLERS, *NEAR])
def test_a_store_empties_by_itself_except_for_what_is_to_be_remembered(name: str) -> None:
    swim = engine()
    {**FILLERS, **NEAR}[name](swim)
    run(swim, 400.0)
    while swim.next_event() is not None:
        pass
    sizes = dict(swim.queue_sizes)
    remembered = {
        key: sizes.pop(key)
        for key in (
            "members",
            "members_live",
            "members_failed",
            "members_left",
            "sessions",
            "order",
            "timers",
        )
    }
    if not remembered["members_live"]:
        del sizes["broadcasts"]  # its own statement waits for somebody to hear it
    # Those that do not answer are asked all the time: by a probe and by a stream.
    allowed = 2 if remembered["members"] else 0
    late = sizes.pop("probes_late")
    assert late <= (SMALL.num_pending if remembered["members"] else 0)
    assert max(sizes.values()) <= allowed
    assert remembered["members_left"] == remembered["members_failed"] == 0


def test_late_answers_are_waited_for_for_a_while_only() -> None:
    swim = engine()
    tell(swim, ALIVE, 3)
    run(swim, 40.0)
    assert swim.queue_sizes["probes_late"] > 0
    for number in range(1, 4):
        member_ = swim._context.table.get(host_id(number))
        assert member_ is not None
        swim._belief.forget(member_)
    run(swim, 400.0)
    assert swim.queue_sizes["probes_late"] == 0


def test_one_stream_has_no_more_to_say_than_its_share_of_actions() -> None:
    pages = 64  # what the records engine sends in one sync at most
    rows = -(-LAN.num_members // ROWS_A_PAGE)
    chunks = -(-MAX_SUMMARY_BYTES // CHUNK_BYTES)
    assert 4 + rows + chunks + pages + 2 < ACTIONS_A_STREAM


def test_a_sync_of_the_largest_size_stays_within_its_share_of_actions() -> None:
    link = joined(2, seed=1)
    first, second = link.hosts.values()
    first.passenger.pages = [bytes(MAX_FRAME_BYTES - 100)] * 64
    most = 0
    before = len(first.engine._streams.actions)
    plain = first.engine.handle_stream_data

    def counted(stream_id: int, data: bytes, now: float) -> None:
        nonlocal most
        plain(stream_id, data, now)
        most = max(most, len(first.engine._streams.actions) - before)

    first.engine.handle_stream_data = counted  # type: ignore[method-assign]
    second.engine._streams.open(first.address, link.now)
    link._settle(second)
    link.run(5.0)
    assert 64 < most < ACTIONS_A_STREAM
    assert len(second.passenger.taken_pages) == 64


def test_a_pass_of_the_order_stays_as_long_as_the_fleet_however_often_members_return() -> None:
    table = MemberTable(16)
    for number in range(4):
        table.add(member(number))
    order = ProbeOrder(table, Random(1))
    for _ in range(1000):
        order.insert(host_id(1))
    assert len(order) == 8
    asked = {row.host_id for _ in range(12) if (row := order.next(()))}
    assert asked == {host_id(number) for number in range(4)}


def test_rounds_ask_nobody_while_as_many_questions_are_in_flight_as_may_be() -> None:
    swim = engine()
    meet(swim)
    ask_many(swim)
    for _ in range(20):
        swim._probing.handle_round(0.0)
    assert swim.queue_sizes["probes"] == SMALL.num_pending
    run(swim, 20.0)
    assert 0 < swim.queue_sizes["probes"] <= 2, "and go on once those have ended"
