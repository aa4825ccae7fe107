"""What a member that is mad, or was taken over, may say: well-formed messages with absurd contents."""

from __future__ import annotations

from gpumesh.model import Address, Reachability
from gpumesh.records.codec import Digest, encode_digest, encode_update, make_entry
from gpumesh.records.values import Plain, encode_value
from gpumesh.swim.fields import MAX_EPOCH, MAX_INCARNATION
from gpumesh.swim.frames import End, Frame, Hello, Outline, Page, Purpose, Row, Rows, Summary
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
from tests.fuzz.draw import Draw
from tests.swim.link import host_id

IDS = tuple(host_id(number) for number in range(6))
"""The first is the engine's own."""
ADDRESSES = tuple(Address(f"10.0.0.{number}", 7977) for number in range(1, 7))
EPOCHS = (0, 1, 2, 3, MAX_EPOCH)
INCARNATIONS = (0, 1, 2, 3, 7, MAX_INCARNATION)
NAMES = ("host", "health", "lease", "baseline", "sharing", "gpu/GPU-1", "gpu/GPU-2", "admission")


def sender(draw: Draw) -> Sender:
    """Draw who speaks."""
    return Sender(draw.chosen(IDS), draw.chosen(EPOCHS), draw.chosen(INCARNATIONS), draw.integer(255))


def statement(draw: Draw) -> Statement | Vouch:
    """Draw what is said of somebody."""
    subject, epoch, incarnation = draw.chosen(IDS), draw.chosen(EPOCHS), draw.chosen(INCARNATIONS)
    kind = draw.integer(4)
    if kind == len(Reachability):
        return Vouch(subject, epoch, incarnation, draw.chosen(IDS))
    address = draw.chosen(ADDRESSES) if draw.integer(1) else None
    state = list(Reachability)[kind]
    accuser = draw.chosen((*IDS, ""))
    is_accusation = state in (Reachability.SUSPECT, Reachability.FAILED)
    is_refused = bool(draw.integer(1)) and is_accusation
    return Statement(state, subject, epoch, incarnation, address, accuser, is_refused)


def update(draw: Draw) -> bytes:
    """Draw what some host says of itself."""
    values: tuple[Plain, ...] = (
        None,
        0,
        -1,
        1e15,
        "word",
        True,
        [],
        {},
        {"name": 1},
        {"labels": {"a": 2}},
        [[1]],
    )
    value = draw.chosen(values)
    encoded = None if value is None else encode_value(value)
    entry = make_entry(
        draw.chosen(IDS),
        draw.chosen(NAMES),
        epoch=draw.integer(3),
        version=draw.integer(255),
        encoded=encoded,
    )
    return encode_update(entry)


def primary(draw: Draw, seqs: list[int]) -> Primary:
    """Draw a question or an answer, if need be to a question that the engine really asked."""
    seq = draw.chosen(seqs) if seqs and draw.integer(1) else draw.integer(3)
    kind = draw.integer(5)
    if kind == 0:
        return Ping(seq, draw.chosen((*IDS, "")))
    if kind == 1:
        return PingReq(seq, draw.chosen(IDS), draw.chosen(ADDRESSES))
    if kind == 2:
        return Ack(seq, bool(draw.integer(1)))
    if kind == 3:
        return RelayedAck(seq, draw.chosen(IDS), draw.chosen(EPOCHS), draw.chosen(INCARNATIONS))
    return Nack(seq) if kind == 4 else Gossip()


def datagram(draw: Draw, seqs: list[int]) -> bytes:
    """Draw the body of a datagram."""
    digest = encode_digest(Digest(draw.integer(3), draw.integer(255), draw.integer(255), draw.integer(255)))
    head = encode_head(sender(draw), draw.chosen((b"", digest, b"odd")), primary(draw, seqs))
    statements = [encode_statement(statement(draw)) for _ in range(draw.integer(4))]
    updates = [update(draw) if draw.integer(3) else draw.blob(60) for _ in range(draw.integer(3))]
    return encode_body(head, statements, updates)


def frame(draw: Draw) -> Frame:
    """Draw one frame of a stream."""
    kind = draw.integer(5)
    if kind == 5:
        num = draw.chosen((1, 2, 16))
        marks = tuple(draw.integer(255) for _ in range(2 * num))
        return Outline(marks[:num], marks[num:])
    if kind == 0:
        purpose = draw.chosen(tuple(Purpose))
        return Hello(sender(draw), draw.chosen(ADDRESSES), purpose, bool(draw.integer(1)))
    if kind == 1:
        said = [statement(draw) for _ in range(draw.integer(5))]
        return Rows(tuple(Row(one, draw.integer(9)) for one in said if _is_row(one)))  # type: ignore[arg-type]
    if kind == 2:
        return Summary(draw.blob(), bool(draw.integer(1)))
    return Page(draw.blob()) if kind == 3 else End()


def _is_row(one: Statement | Vouch) -> bool:
    return isinstance(one, Statement) and one.address is not None
