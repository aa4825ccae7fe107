"""What one call takes where thousands of members are known, against the bound of a host that knows none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest

from gpumesh.config import Config, GossipConfig
from gpumesh.model import Address, Identity, Reachability
from gpumesh.records.engine import Records
from gpumesh.sim.gpus import report_of
from gpumesh.sim.keys import KeyBook
from gpumesh.sim.mesh_node import MeshNode
from gpumesh.sim.meter import Meter, bound_of
from gpumesh.swim.frames import Row
from gpumesh.swim.ports import OpenStream, SendStream, StreamAction
from gpumesh.swim.seal import SESSION_BYTES, FleetSealer
from gpumesh.swim.statement import Statement
from gpumesh.swim.wire import Ack, Ping, PingReq, Primary, Sender, encode_body, encode_head, encode_statement

FLEET: Final = "sim"
NUM_MEMBERS: Final = 2_000
WALK_STEPS: Final = NUM_MEMBERS
"""What the cheapest walk through the table takes more: each row is an entry and a return."""
FORMED_AT: Final = 1_000.0


IDS: Final = [str(UUID(int=number, version=4)) for number in range(NUM_MEMBERS)]
ADDRESSES: Final = [Address(f"10.1.{number >> 8}.{number & 255}", 7977) for number in range(NUM_MEMBERS)]


class Host:
    """One host whose tables were filled as syncs fill them, and whose calls are counted."""

    def __init__(self, number: int, known: Sequence[int]) -> None:
        random = Random(number)
        keys = KeyBook(FLEET)
        self.now = FORMED_AT
        self.node = MeshNode(
            identity=Identity(IDS[number], f"h{number}", 1, "boot"),
            address=ADDRESSES[number],
            config=Config(gossip=GossipConfig(fleet=FLEET)),
            sealer=keys.sealer(IDS[number], random.randbytes(SESSION_BYTES)),
            random=random,
            now=self.now,
            unix_offset=0.0,
        )
        self.node.set_health(report_of(f"h{number}", 2), self.now)
        self._peers = [keys.sealer(host_id, random.randbytes(SESSION_BYTES)) for host_id in IDS[:8]]
        self._meter = Meter()
        self._fill(IDS[number], known)

    def _fill(self, own_id: str, known: Sequence[int]) -> None:
        records, intake = self.node._records, self.node._swim._intake
        own = records.entries(own_id)
        for number in known:
            statement = Statement(Reachability.ALIVE, IDS[number], 1, 0, ADDRESSES[number])
            intake.handle_row(Row(statement, 0), self.now, is_joining=True)
            theirs = Records(host_id=IDS[number], epoch=1)
            for name, entry in own.items():
                theirs.publish(name, entry.value)
            for page in theirs.pages_to_send(Records(host_id=own_id, epoch=1).summary_to_send()):
                records.handle_page(page, self.now)
        # What the rows brought is worked off in the call that brings them: a sync's, and not what follows.
        self.node.handle_unreachable(Address("10.9.9.9", 1), self.now)
        self.drain()

    def drain(self) -> list[StreamAction]:
        node = self.node
        node.datagrams_to_send()
        while node.next_change() is not None or node.next_event() is not None:
            pass
        actions = []
        while (action := node.next_stream_action()) is not None:
            actions.append(action)
        return actions

    def steps(self, call: Callable[..., Any], *arguments: Any) -> int:
        _, num_steps = self._meter.measure(call, *arguments, self.now)
        return num_steps

    def datagram(self, number: int, primary: Primary, statements: Sequence[Statement] = ()) -> bytes:
        head = encode_head(Sender(IDS[number], 1, 0, 1), b"", primary)
        body = encode_body(head, [encode_statement(statement) for statement in statements], [])
        sealer: FleetSealer = self._peers[number]
        return sealer.seal(body)


@pytest.fixture(scope="module")
def small() -> Host:
    return Host(0, range(1, 100))


@pytest.fixture(scope="module")
def crowded() -> Host:
    return Host(0, range(1, NUM_MEMBERS))


def said() -> list[tuple[Primary, list[Statement]]]:
    accused = [Statement(Reachability.SUSPECT, IDS[number], 1, 0, None, IDS[1]) for number in range(50, 70)]
    return [
        (Ping(7, IDS[0]), []),
        (Ping(8, IDS[0]), accused),
        (PingReq(9, IDS[30], ADDRESSES[30]), []),
        (Ack(10, is_stranger=True), []),
    ]


def test_datagram_takes_no_more_where_thousands_are_known(crowded: Host, small: Host) -> None:
    for number, (primary, statements) in enumerate(said(), start=1):
        taken = []
        for host in (small, crowded):
            data = host.datagram(number, primary, statements)
            taken.append(host.steps(host.node.handle_datagram, data, ADDRESSES[number]))
            host.drain()
            assert taken[-1] <= bound_of("handle_datagram", len(data), 0), primary
        assert taken[1] <= taken[0] + WALK_STEPS, f"{primary}: a walk through the table"
    assert crowded.node.counters.get("sent/ack", 0) >= 2, "the datagrams were understood"


def test_refusal_and_seeds_take_no_more_where_thousands_are_known(crowded: Host, small: Host) -> None:
    for name, argument, num_items in (
        ("handle_unreachable", ADDRESSES[5], 0),
        ("seed", ADDRESSES[:3], 3),
        ("seed", [Address("10.8.0.1", port) for port in range(1, 513)], 512),
    ):
        taken = []
        for host in (small, crowded):
            taken.append(host.steps(getattr(host.node, name), argument))
            host.drain()
            assert taken[-1] <= bound_of(name, num_items, 0)
        assert taken[1] <= taken[0] + WALK_STEPS, f"{name}: a walk through the table"


def test_walk_through_the_table_for_one_datagram_is_noticed(crowded: Host, small: Host) -> None:
    def walk(host: Host) -> int:
        return host.steps(lambda _now: sum(1 for _ in host.node.members()))

    assert walk(crowded) > walk(small) + WALK_STEPS


def test_timer_of_thousands_walks_the_table_now_and_then_and_is_cheap_in_between(crowded: Host) -> None:
    taken = []
    end = crowded.now + 40.0
    while crowded.now < end:
        deadline = crowded.node.next_deadline()
        assert deadline is not None
        crowded.now = max(crowded.now, deadline)
        taken.append(crowded.steps(crowded.node.handle_timer))
        crowded.drain()
    bound = bound_of("handle_timer", 0, NUM_MEMBERS)
    assert max(taken) <= bound
    assert bound < 0.1 * bound_of("handle_stream_data", 0, NUM_MEMBERS)
    over = sum(num_steps > bound_of("handle_timer", 0, 0) for num_steps in taken)
    assert over <= len(taken) / 4, "most rounds cost the same in any fleet"


def test_stream_of_a_host_that_joins_thousands_stays_under_what_a_sync_may_take(crowded: Host) -> None:
    joining = Host(1, [])
    joining.node.seed(ADDRESSES[:1], joining.now)
    [opening] = [action for action in joining.drain() if isinstance(action, OpenStream)]
    number = crowded.node.handle_stream_accepted(ADDRESSES[1], crowded.now)
    assert number is not None
    ends = [(joining, opening.stream_id), (crowded, number)]
    num_steps = joining.steps(joining.node.handle_stream_opened, opening.stream_id)
    assert num_steps <= bound_of("handle_stream_opened", 0, 1)
    is_busy = True
    while is_busy:
        is_busy = False
        for (speaker, _), (hearer, stream_id) in (ends, ends[::-1]):
            for action in speaker.drain():
                if isinstance(action, SendStream):
                    is_busy = True
                    num_steps = hearer.steps(hearer.node.handle_stream_data, stream_id, action.data)
                    num_members = len(hearer.node.members())
                    assert num_steps <= bound_of("handle_stream_data", len(action.data), num_members)
    assert len(joining.node.members()) == NUM_MEMBERS
