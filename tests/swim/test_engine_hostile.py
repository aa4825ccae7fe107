"""What comes from outside without a key of the fleet changes nothing, whatever it is."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpumesh.config.keyring import FleetKey, Keyring
from gpumesh.model import Address, Identity, Reachability
from gpumesh.swim.engine import Swim
from gpumesh.swim.parameters import LAN
from gpumesh.swim.ports import CloseStream, SendStream
from gpumesh.swim.seal import FleetSealer
from gpumesh.swim.statement import Statement, Vouch
from gpumesh.swim.wire import (
    Ack,
    Gossip,
    Nack,
    Ping,
    PingReq,
    Primary,
    RelayedAck,
    Sender,
    encode_body,
    encode_head,
    encode_statement,
)
from tests.swim.link import KEY, Link, QuietPassenger, host_id, joined

ALIVE = Reachability.ALIVE
OUTSIDE = Address("192.0.2.66", 4444)


def engine(number: int = 0, keyring: Keyring | None = KEY) -> Swim:
    return Swim(
        identity=Identity(host_id(number), "host", 1, "boot"),
        address=Address("10.0.0.1", 7977),
        fleet="test",
        parameters=LAN,
        sealer=FleetSealer(keyring, "test", bytes([number + 1] * 16)),
        passenger=QuietPassenger(),
        random=Random(1),
        now=0.0,
    )


def run_timers(swim: Swim, until: float) -> None:
    while (deadline := swim.next_deadline()) is not None and deadline <= until:
        swim.handle_timer(deadline)


def fingerprint(swim: Swim) -> object:
    """Everything a datagram could change, its drop's count apart."""
    counters = {name: count for name, count in swim.counters.items() if not name.startswith("drops/")}
    return (
        [(row.host_id, row.reachability, row.incarnation, row.epoch) for row in swim.members()],
        counters,
        dict(swim.queue_sizes),
        swim.last_heard_at,
        swim.next_deadline(),
    )


@settings(max_examples=300)
@given(st.binary(max_size=1600))
def test_unauthenticated_datagrams_change_nothing_but_a_count(data: bytes) -> None:
    swim = engine()
    before = fingerprint(swim)
    swim.handle_datagram(data, OUTSIDE, 0.0)
    assert fingerprint(swim) == before
    assert sum(count for name, count in swim.counters.items() if name.startswith("drops/")) == 1


@given(st.data())
def test_true_datagrams_with_a_changed_byte_change_nothing(data: st.DataObject) -> None:
    link = joined(2)
    first, second = link.hosts.values()
    link.run(1.0)
    datagram = bytearray(next(sent for sent, _, target in reversed(link.wiretap) if target == first.address))
    datagram[data.draw(st.integers(0, len(datagram) - 1))] ^= data.draw(st.integers(1, 255))
    before = fingerprint(first.engine)
    first.engine.handle_datagram(bytes(datagram), second.address, link.now)
    assert fingerprint(first.engine) == before


IDS = st.integers(0, 5).map(host_id)
ADDRESSES = st.integers(1, 9).map(lambda number: Address(f"10.0.0.{number}", 7977))
SMALL = st.integers(0, 4)
STATEMENTS: st.SearchStrategy[Statement | Vouch] = st.one_of(
    st.builds(
        Statement, st.sampled_from(Reachability), IDS, SMALL, SMALL, st.none() | ADDRESSES, IDS | st.just("")
    ),
    st.builds(Vouch, IDS, SMALL, SMALL, IDS),
)
PRIMARIES: st.SearchStrategy[Primary] = st.one_of(
    st.builds(Ping, SMALL, IDS | st.just("")),
    st.builds(PingReq, SMALL, IDS, ADDRESSES),
    st.builds(Ack, SMALL, st.booleans()),
    st.builds(RelayedAck, SMALL, IDS, SMALL, SMALL),
    st.builds(Nack, SMALL),
    st.builds(Gossip),
)
MESSAGES = st.tuples(
    st.builds(Sender, IDS, SMALL, SMALL, SMALL),
    PRIMARIES,
    st.lists(STATEMENTS, max_size=6),
    ADDRESSES,
    st.floats(0, 20),
)


@settings(max_examples=300)
@given(st.lists(MESSAGES, max_size=25))
def test_no_talk_of_key_holders_however_absurd_breaks_an_invariant(
    messages: list[tuple[Sender, Primary, list[Statement | Vouch], Address, float]],
) -> None:
    swim, liar = engine(), FleetSealer(KEY, "test", bytes([99] * 16))
    now, own = 0.0, (1, 0)
    seen: dict[str, tuple[int, int]] = {}
    for sender, primary, statements, source, wait_s in messages:
        body = encode_body(
            encode_head(sender, b"", primary), [encode_statement(one) for one in statements], [b"u"]
        )
        swim.handle_datagram(liar.seal(body), source, now)
        now += wait_s
        swim.handle_timer(now)
        for data, _ in swim.datagrams_to_send():
            assert len(data) <= LAN.datagram_bytes
        rows = swim.members()
        assert len({row.host_id for row in rows}) == len(rows)
        assert (rows[0].epoch, rows[0].incarnation) >= own
        own = (rows[0].epoch, rows[0].incarnation)
        for row in rows[1:]:
            key = (row.epoch, row.incarnation)
            assert seen.get(row.host_id, key) <= key, "epochs and incarnations never fall"
            seen[row.host_id] = key
        while swim.next_event() is not None or swim.next_stream_action() is not None:
            pass
    assert swim.counters["drops/transition"] == 0


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=100), max_size=10), st.booleans())
def test_noise_on_streams_is_answered_with_a_preamble_and_a_hang_up_at_most(
    chunks: list[bytes], begins_right: bool
) -> None:
    swim = engine()
    before = [(row.host_id, row.reachability) for row in swim.members()]
    stream_id = swim.handle_stream_accepted(OUTSIDE, 0.0)
    assert stream_id is not None
    if begins_right:
        swim.handle_stream_data(stream_id, b"gms\x01" + bytes(16), 0.0)
    for chunk in chunks:
        swim.handle_stream_data(stream_id, chunk, 0.0)
    actions = []
    while (action := swim.next_stream_action()) is not None:
        actions.append(action)
    assert [type(action) for action in actions] in ([SendStream], [SendStream, CloseStream])
    assert [(row.host_id, row.reachability) for row in swim.members()] == before
    run_timers(swim, 40.0)
    assert swim.queue_sizes["streams"] == 0


@pytest.mark.parametrize(
    ("fleet", "keyring", "drop"),
    [
        ("other", KEY, "drops/bad_label"),
        ("test", Keyring((FleetKey(b"x" * 32),)), "drops/unknown_key"),
        ("test", None, "drops/unkeyed"),
    ],
)
def test_consul_843_a_host_without_the_key_or_with_another_label_gets_nothing(
    fleet: str, keyring: Keyring | None, drop: str
) -> None:
    link = joined(3, seed=1)
    members = list(link.hosts.values())
    stranger = link.add(50, fleet=fleet, keyring=keyring, seeds=[host.address for host in members])
    link.run(60.0)
    assert len(stranger.engine.members()) == 1
    assert stranger.engine.last_heard_at is None
    assert all(host.sees(stranger) is None for host in members)
    assert max(host.engine.counters[drop] for host in members) > 0
    assert not any(target == stranger.address for _, _, target in link.wiretap), "not one word"


def test_replayed_traffic_is_refused_and_keeps_nobody_alive() -> None:
    link = joined(4, seed=2)
    link.run(20.0)
    first, *others, victim = link.hosts.values()
    link.kill(victim)
    recorded = link.recorded(victim, first)
    assert len(recorded) > 5
    replays = first.engine.counters["drops/replay"]

    def all_know() -> bool:
        for data in recorded:
            first.engine.handle_datagram(data, victim.address, link.now)
        return link.all_see([first, *others], [victim], Reachability.FAILED)

    assert link.run(30.0, until=all_know) < 30.0
    assert first.engine.counters["drops/replay"] >= replays + len(recorded)


def test_a_recording_is_no_evidence_of_life_to_a_host_that_started_after_it() -> None:
    link = joined(4, seed=3)
    link.run(20.0)
    first, second, third, victim = link.hosts.values()
    recorded = link.recorded(victim, first)
    link.kill(victim)
    link.kill(first)
    newcomer = link.add(0, epoch=2, address=first.address, seeds=[second.address])
    link.run(0.5)
    assert newcomer.sees(victim) is ALIVE
    waiting = list(recorded)

    def feed() -> bool:
        if waiting:
            newcomer.engine.handle_datagram(waiting.pop(0), victim.address, link.now)
        return link.all_see([newcomer, second, third], [victim], Reachability.FAILED)

    assert link.run(30.0, until=feed) < 30.0


def test_serf_336_another_host_cannot_accuse_in_nobodys_name() -> None:
    """Nor in a stranger's, nor in that of the subject itself."""
    link = joined(3, seed=4)
    first, second, third = link.hosts.values()
    liar = FleetSealer(KEY, "test", bytes([99] * 16))
    for accuser in ("", host_id(40), third.host_id):
        for kind in (Reachability.SUSPECT, Reachability.FAILED):
            accusation = Statement(kind, third.host_id, 1, 0, None, accuser)
            head = encode_head(Sender(second.host_id, 1, 0, 0), b"", Gossip())
            datagram = liar.seal(encode_body(head, [encode_statement(accusation)], []))
            first.engine.handle_datagram(datagram, second.address, link.now)
    assert first.engine.counters["drops/invalid_accuser"] == 6
    assert first.sees(third) is ALIVE


def test_streams_are_bounded_in_number() -> None:
    swim = engine()
    sources = [Address(f"10.6.0.{number}", 40_000) for number in range(LAN.num_streams + 5)]
    accepted = [swim.handle_stream_accepted(source, 0.0) for source in sources]
    assert accepted.count(None) == 5
    assert swim.counters["drops/streams"] == 5
    run_timers(swim, LAN.stream_timeout_s + 0.1)
    assert swim.queue_sizes["streams"] == 0


def test_too_large_a_datagram_is_dropped_unread() -> None:
    swim = engine()
    swim.handle_datagram(bytes(9000), OUTSIDE, 0.0)
    assert swim.counters["drops/too_large"] == 1


def test_a_namesake_is_reported_and_not_obeyed() -> None:
    swim, twin = engine(), FleetSealer(KEY, "test", bytes([98] * 16))
    goodbye = encode_statement(Statement(Reachability.LEFT, host_id(0), 1, 0))
    body = encode_body(encode_head(Sender(host_id(0), 1, 0, 0), b"", Gossip()), [goodbye], [])
    swim.handle_datagram(twin.seal(body), OUTSIDE, 1.0)
    assert swim.members()[0].reachability is ALIVE
    event = swim.next_event()
    assert event is not None
    assert "192.0.2.66" in getattr(event, "reason", "")


def test_the_link_itself_is_deterministic() -> None:
    def trace(seed: int) -> list[tuple[float, str]]:
        link = Link(seed)
        hosts = [link.add(number) for number in range(5)]
        link.loss = 0.2
        link.run(30.0)
        return [(at, event.reason) for host in hosts for at, event in host.changes()]

    assert trace(7) == trace(7)
    assert trace(7) != trace(8)


def test_who_shows_no_key_cannot_hold_all_streams() -> None:
    swim = engine()
    stranger, peer = Address("10.6.6.6", 40_000), Address("10.0.0.9", 50_000)
    taken = [swim.handle_stream_accepted(stranger, 0.0) for _ in range(200)]
    assert 0 < sum(stream is not None for stream in taken) <= LAN.num_streams // 2
    assert swim.counters["drops/streams_source"] > 0
    assert swim.handle_stream_accepted(peer, 0.0) is not None
