from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumesh.errors import RejectedError
from gpumesh.model import Address, Reachability
from gpumesh.swim.fields import MAX_BEAT, MAX_EPOCH, MAX_INCARNATION, MAX_SEQ, canonical, id_to_wire
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
    decode,
    encode_body,
    encode_head,
    encode_statement,
)

IDS = st.uuids().map(str)
ADDRESSES = st.builds(
    Address,
    st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))
    .map(str)
    .filter(lambda host: host not in ("0.0.0.0", "::")),
    st.integers(1, 65_535),
).map(canonical)
EPOCHS, INCARNATIONS, SEQS = (
    st.integers(0, MAX_EPOCH),
    st.integers(0, MAX_INCARNATION),
    st.integers(0, MAX_SEQ),
)
PRIMARIES: st.SearchStrategy[Primary] = st.one_of(
    st.builds(Ping, SEQS, st.one_of(IDS, st.just(""))),
    st.builds(PingReq, SEQS, IDS, ADDRESSES),
    st.builds(Ack, SEQS, st.booleans()),
    st.builds(RelayedAck, SEQS, IDS, EPOCHS, INCARNATIONS),
    st.builds(Nack, SEQS),
    st.builds(Gossip),
)
STATEMENTS: st.SearchStrategy[Statement | Vouch] = st.one_of(
    st.builds(
        Statement,
        st.sampled_from(Reachability),
        IDS,
        EPOCHS,
        INCARNATIONS,
        st.none() | ADDRESSES,
        IDS | st.just(""),
    ),
    st.builds(
        Statement,
        st.sampled_from((Reachability.SUSPECT, Reachability.FAILED)),
        IDS,
        EPOCHS,
        INCARNATIONS,
        st.none() | ADDRESSES,
        IDS,
        is_refused=st.just(True),
    ),
    st.builds(Vouch, IDS, EPOCHS, INCARNATIONS, IDS),
)
SENDERS = st.builds(Sender, IDS, EPOCHS, INCARNATIONS, st.integers(0, MAX_BEAT))
SENDER = Sender("00000000-0000-0000-0000-000000000001", 1, 0, 0)


@given(
    SENDERS,
    st.binary(max_size=64),
    PRIMARIES,
    st.lists(STATEMENTS, max_size=30),
    st.lists(st.binary(max_size=300), max_size=20),
)
def test_every_message_comes_back_as_it_went(
    sender: Sender, digest: bytes, primary: Primary, statements: list[Statement | Vouch], updates: list[bytes]
) -> None:
    head = encode_head(sender, digest, primary)
    datagram = decode(encode_body(head, [encode_statement(one) for one in statements], updates))
    assert datagram.sender == sender
    assert datagram.digest == digest
    assert datagram.primary == primary
    assert list(datagram.statements) == statements
    assert list(datagram.updates) == updates


@given(STATEMENTS)
def test_statements_are_as_small_as_the_queue_assumes(statement: Statement | Vouch) -> None:
    assert 24 <= len(encode_statement(statement)) <= 80


def body(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "kind": 6,
        "id": id_to_wire(SENDER.host_id),
        "epoch": 1,
        "incarnation": 0,
        "beat": 0,
        "digest": b"",
        "arguments": (),
        "statements": (),
        "updates": (),
    }
    fields.update(changes)
    packed: bytes = msgpack.packb(tuple(fields.values()))
    return packed


def test_the_plain_body_is_accepted() -> None:
    assert decode(body()).primary == Gossip()


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": 0},
        {"kind": 99},
        {"kind": True},
        {"kind": 6.0},
        {"id": b"short"},
        {"id": "text-text-text-t"},
        {"epoch": -1},
        {"epoch": MAX_EPOCH + 1},
        {"epoch": float("nan")},
        {"incarnation": 1.0},
        {"incarnation": None},
        {"beat": float("inf")},
        {"digest": bytes(65)},
        {"digest": None},
        {"arguments": (1,)},
        {"kind": 1, "arguments": (1, b"x")},
        {"kind": 2, "arguments": (1, bytes(16), b"\x01\x02\x03", 1)},
        {"kind": 2, "arguments": (1, bytes(16), b"\x01\x02\x03\x04", 0)},
        {"kind": 2, "arguments": (1, bytes(16), bytes(4), 1)},
        {"kind": 3, "arguments": (1, 2)},
        {"statements": 1},
        {"statements": ((0, bytes(16), 1, 0, b"", 0),)},
        {"statements": ((9, bytes(16), 1, 0, b"", 0, b""),)},
        {"statements": ((0, bytes(16), 1, 0, b"", 0, b"odd"),)},
        {"statements": tuple((0, bytes(16), 1, 0, b"", 0, b"") for _ in range(256))},
        {"updates": (1,)},
        {"updates": {}},
        {"updates": ({1: 2},)},
        {"updates": ("text",)},
        {"updates": tuple(b"" for _ in range(256))},
        {"updates": (msgpack.ExtType(1, b"x"),)},
    ],
)
def test_whatever_is_not_exactly_a_message_is_malformed(changes: dict[str, Any]) -> None:
    with pytest.raises(RejectedError, match="malformed"):
        decode(body(**changes))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        body() + b"\x00",
        body()[:-1],
        b"\xdd\xff\xff\xff\xff",  # an array of four thousand million
        b"\xc6\xff\xff\xff\xff",  # as many bytes
        b"\xdf\xff\xff\xff\xff",  # as many pairs
        b"\x91" * 1300,  # deep, not wide
        b"\x91" * 8_000 + b"\x01",
    ],
)
def test_sizes_and_depths_are_refused_before_they_are_built(data: bytes) -> None:
    with pytest.raises(RejectedError, match="malformed"):
        decode(data)


@given(st.binary(max_size=400))
def test_noise_is_malformed(data: bytes) -> None:
    with pytest.raises(RejectedError):
        decode(data)


@given(st.data())
def test_a_message_with_bytes_changed_is_a_message_or_malformed(data: st.DataObject) -> None:
    head = encode_head(SENDER, b"digest", data.draw(PRIMARIES))
    statements = [encode_statement(one) for one in data.draw(st.lists(STATEMENTS, max_size=3))]
    changed = bytearray(encode_body(head, statements, [b"update"]))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(changed))
    except RejectedError as error:
        assert error.reason == "malformed"  # noqa: PT017 (a decode that succeeds is as good)


@pytest.mark.parametrize("host", ["example.org", "", "10.0.0.1.2", "0.0.0.0", "::", "fe80::1%eth0"])
def test_only_literals_are_addresses(host: str) -> None:
    with pytest.raises(ValueError, match="address"):
        canonical(Address(host, 1))


def test_addresses_have_one_spelling() -> None:
    assert canonical(Address("2001:DB8:0:0::1", 1)) == Address("2001:db8::1", 1)


@pytest.mark.parametrize("host_id", ["", "nonsense", "00000000-0000-0000-0000-00000000000A", "0" * 32])
def test_only_canonical_ids_are_sent(host_id: str) -> None:
    with pytest.raises((ValueError, RejectedError)):
        id_to_wire(host_id)
