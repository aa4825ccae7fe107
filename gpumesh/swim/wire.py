"""Datagrams: one primary message, then news.

The body is one msgpack array::

    [kind, sender id, epoch, incarnation, beat, digest, arguments, statements, updates]

``statements`` is membership news (:class:`Statement`, :class:`Vouch`), ``updates`` belongs to the
passenger, and both ride on every datagram that has room. Membership fills first, up to what is reserved for
the passenger (memberlist#299). Each sender states its own epoch and incarnation, so every datagram is also
word of life.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

from gpumesh.errors import RejectedError
from gpumesh.model import Address, Reachability
from gpumesh.swim.fields import (
    MAX_BEAT,
    MAX_EPOCH,
    MAX_INCARNATION,
    MAX_SEQ,
    address_from_wire,
    address_to_wire,
    array,
    binary,
    id_from_wire,
    id_to_wire,
    integer,
    pack,
    unpack,
)
from gpumesh.swim.statement import Statement, Vouch

MAX_DIGEST_BYTES: Final = 64
MAX_ITEMS: Final = 255
"""Statements, and updates, in one datagram."""
MAX_DATAGRAM_BYTES: Final = 8_900
FRAMING_BYTES: Final = 3
"""Of an array's header, and of one update."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Who speaks, as it states itself."""

    host_id: str
    epoch: int
    incarnation: int
    beat: int


@dataclass(frozen=True, slots=True)
class Ping:
    """Answer with :class:`Ack` of this number. ``target`` is empty when a seed is asked whoever it is."""

    seq: int
    target: str


@dataclass(frozen=True, slots=True)
class PingReq:
    """Ping ``target`` on the sender's behalf; answer with :class:`RelayedAck`, in time with :class:`Nack`."""

    seq: int
    target: str
    address: Address


@dataclass(frozen=True, slots=True)
class Ack:
    """The sender answers ping ``seq``. ``is_stranger``: it does not know the asker and wants to be told."""

    seq: int
    is_stranger: bool


@dataclass(frozen=True, slots=True)
class RelayedAck:
    """``subject`` answered the sender's ping on behalf of ping-req ``seq``."""

    seq: int
    subject: str
    epoch: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class Nack:
    """No answer yet for ping-req ``seq``: the relay lives, the fault is beyond it (Lifeguard)."""

    seq: int


@dataclass(frozen=True, slots=True)
class Gossip:
    """News alone."""


Primary = Ping | PingReq | Ack | RelayedAck | Nack | Gossip
KINDS: Final[dict[type[Primary], int]] = {Ping: 1, PingReq: 2, Ack: 3, RelayedAck: 4, Nack: 5, Gossip: 6}
NAMES: Final[dict[type[Primary], str]] = {
    Ping: "ping",
    PingReq: "ping_req",
    Ack: "ack",
    RelayedAck: "relayed_ack",
    Nack: "nack",
    Gossip: "gossip",
}
_STATES: Final = (Reachability.ALIVE, Reachability.SUSPECT, Reachability.FAILED, Reachability.LEFT)
_CODES: Final = {state: code for code, state in enumerate(_STATES)}
_VOUCH: Final = 4
_REFUSED: Final = {Reachability.SUSPECT: 5, Reachability.FAILED: 6}
"""Codes of the two accusations where the accused's own kernel refuses."""
_ACCUSED: Final = {code: state for state, code in _REFUSED.items()}
_MAX_CODE: Final = 6
_STATEMENT_FIELDS: Final = 7


@dataclass(frozen=True, slots=True)
class Datagram:
    """One decoded datagram."""

    sender: Sender
    digest: bytes
    primary: Primary
    statements: tuple[Statement | Vouch, ...]
    updates: tuple[bytes, ...]


def encode_head(sender: Sender, digest: bytes, primary: Primary) -> bytes:
    """Return all but the news; :func:`encode_body` completes it."""
    head = (
        KINDS[type(primary)],
        id_to_wire(sender.host_id),
        sender.epoch,
        sender.incarnation,
        sender.beat,
        digest,
        _arguments(primary),
    )
    return b"\x99" + pack(head)[1:]


def encode_body(head: bytes, statements: Sequence[bytes], updates: Sequence[bytes]) -> bytes:
    """Return a datagram's body from its head, encoded statements and raw updates."""
    return b"".join(
        (head, _array_header(len(statements)), *statements, _array_header(len(updates)), *map(pack, updates))
    )


def encode_statement(statement: Statement | Vouch) -> bytes:
    """Return the statement as it stands in datagrams and sync pages, 27 to 70 bytes."""
    if isinstance(statement, Vouch):
        code, packed, port, by = _VOUCH, b"", 0, statement.voucher
    else:
        code, by = _CODES[statement.kind], statement.accuser
        if statement.is_refused:
            code = _REFUSED.get(statement.kind, code)
        packed, port = address_to_wire(statement.address) if statement.address else (b"", 0)
    return pack(
        (
            code,
            id_to_wire(statement.host_id),
            statement.epoch,
            statement.incarnation,
            packed,
            port,
            id_to_wire(by) if by else b"",
        )
    )


def decode_statement(value: Any) -> Statement | Vouch:
    """Return the statement in an unpacked value; raises :class:`RejectedError`."""
    try:
        return _decode_statement(*array(value, _STATEMENT_FIELDS))
    except TypeError:  # an empty map, which the cache cannot hash
        raise RejectedError("malformed", "statement") from None


# The same news comes in from several members, and a sync repeats the whole table: most were decoded before.
# ``typed``, so that what is accepted does not depend on what was seen (1 == True == 1.0).
@lru_cache(maxsize=16_384, typed=True)
def _decode_statement(  # noqa: PLR0917 (the fields of the wire, in their order)
    code: Any, raw_id: Any, epoch: Any, incarnation: Any, packed: Any, port: Any, raw_by: Any
) -> Statement | Vouch:
    host_id = id_from_wire(raw_id)
    epoch = integer(epoch, MAX_EPOCH)
    incarnation = integer(incarnation, MAX_INCARNATION)
    by = id_from_wire(raw_by) if raw_by != b"" else ""
    if integer(code, _MAX_CODE) == _VOUCH:
        return Vouch(host_id, epoch, incarnation, by)
    address = address_from_wire(packed, port) if packed != b"" else None
    is_refused = code in _ACCUSED
    kind = _ACCUSED[code] if is_refused else _STATES[code]
    return Statement(kind, host_id, epoch, incarnation, address, by, is_refused)


def decode_sender(raw_id: Any, epoch: Any, incarnation: Any, beat: Any) -> Sender:
    """Return who speaks, of a datagram or a stream; raises :class:`RejectedError` for an absurd field."""
    return Sender(
        id_from_wire(raw_id),
        integer(epoch, MAX_EPOCH),
        integer(incarnation, MAX_INCARNATION),
        integer(beat, MAX_BEAT),
    )


def decode(body: bytes) -> Datagram:
    """Return the datagram; raises :class:`RejectedError` for whatever is not exactly one."""
    value = array(unpack(body, MAX_ITEMS), 9)
    kind, raw_id, epoch, incarnation, beat, digest, arguments, statements, updates = value
    sender = decode_sender(raw_id, epoch, incarnation, beat)
    if type(statements) is not tuple or type(updates) is not tuple:
        raise RejectedError("malformed", "news")
    return Datagram(
        sender,
        binary(digest, MAX_DIGEST_BYTES),
        _primary(kind, arguments),
        tuple([decode_statement(item) for item in statements]),
        tuple([binary(item, MAX_DATAGRAM_BYTES) for item in updates]),
    )


def _arguments(primary: Primary) -> tuple[Any, ...]:
    if isinstance(primary, Ping):
        return primary.seq, id_to_wire(primary.target) if primary.target else b""
    if isinstance(primary, Ack):
        return primary.seq, int(primary.is_stranger)
    if isinstance(primary, PingReq):
        return primary.seq, id_to_wire(primary.target), *address_to_wire(primary.address)
    if isinstance(primary, RelayedAck):
        return primary.seq, id_to_wire(primary.subject), primary.epoch, primary.incarnation
    if isinstance(primary, Nack):
        return (primary.seq,)
    return ()


def _primary(kind: Any, arguments: Any) -> Primary:
    decoder = _DECODERS.get(kind) if type(kind) is int else None
    if decoder is None:
        raise RejectedError("malformed", "kind")
    size, build = decoder
    return cast("Primary", build(*array(arguments, size)))


def _ping(seq: Any, target: Any) -> Ping:
    return Ping(integer(seq, MAX_SEQ), id_from_wire(target) if target != b"" else "")


def _ping_req(seq: Any, target: Any, packed: Any, port: Any) -> PingReq:
    return PingReq(integer(seq, MAX_SEQ), id_from_wire(target), address_from_wire(packed, port))


def _ack(seq: Any, is_stranger: Any) -> Ack:
    return Ack(integer(seq, MAX_SEQ), bool(integer(is_stranger, 1)))


def _relayed_ack(seq: Any, subject: Any, epoch: Any, incarnation: Any) -> RelayedAck:
    return RelayedAck(
        integer(seq, MAX_SEQ),
        id_from_wire(subject),
        integer(epoch, MAX_EPOCH),
        integer(incarnation, MAX_INCARNATION),
    )


def _nack(seq: Any) -> Nack:
    return Nack(integer(seq, MAX_SEQ))


_DECODERS: Final[dict[int, tuple[int, Any]]] = {
    1: (2, _ping),
    2: (4, _ping_req),
    3: (2, _ack),
    4: (4, _relayed_ack),
    5: (1, _nack),
    6: (0, Gossip),
}


def _array_header(size: int) -> bytes:
    return bytes([0x90 | size]) if size < 16 else b"\xdc" + size.to_bytes(2, "big")  # noqa: PLR2004 (msgpack's own)
