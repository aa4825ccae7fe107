"""The way out for datagrams: a primary message, then whatever news has room."""

from __future__ import annotations

from typing import Final

from gpumesh.model import Address
from gpumesh.swim.context import Context
from gpumesh.swim.member import Member
from gpumesh.swim.parameters import retransmit_limit
from gpumesh.swim.statement import Statement
from gpumesh.swim.wire import (
    FRAMING_BYTES,
    MAX_DIGEST_BYTES,
    MAX_ITEMS,
    NAMES,
    Ack,
    Gossip,
    Ping,
    Primary,
    encode_body,
    encode_head,
    encode_statement,
)

MAX_WAITING: Final = 8_192
"""Datagrams that wait for the shell; it drains them after each input."""
PASSENGER_PART: Final = 3
"""The passenger is kept no more than one in so many bytes where a path carries small datagrams only."""


class Post:
    """Composes, seals and queues datagrams."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.outbox: list[tuple[bytes, Address]] = []

    def send(
        self,
        primary: Primary,
        to: Address,
        member: Member | None = None,
        *,
        introduces: bool = False,
        has_news: bool = True,
        extra: Statement | None = None,
    ) -> bool:
        """Queue one datagram; return False if it is gossip without any news, which is not sent.

        ``member`` is whom it goes to: an accusation of the member itself leads, whatever else there is, so
        that it can refute at once (Lifeguard's buddy system). ``introduces`` adds this host's own
        statement. ``extra`` is one more statement meant for the receiver. ``has_news`` is False towards
        those who are most likely gone, on whom news would be wasted.
        """
        context = self._context
        statements = self._direct(member, extra, introduces=introduces)
        has_news = has_news and not context.is_leaving
        if isinstance(primary, Gossip) and not statements and not (has_news and self._is_news_waiting()):
            return False  # each round at rest ends here: before anything is made for it
        digest = self._digest() if isinstance(primary, Ping | Ack) else b""
        head = encode_head(context.sender(), digest, primary)
        room = context.datagram_bytes - context.sealer.overhead_bytes - len(head) - 2 * FRAMING_BYTES
        room -= sum(map(len, statements))
        updates: list[bytes] = []
        if has_news:
            updates = self._add_news(statements, room, member)
        if not statements and not updates and isinstance(primary, Gossip):
            return False
        if len(self.outbox) >= MAX_WAITING:
            context.counters["drops/outbox"] += 1
            return True
        self.outbox.append((context.sealer.seal(encode_body(head, statements, updates)), to))
        context.counters["sent/" + NAMES[type(primary)]] += 1
        return True

    def drain(self) -> list[tuple[bytes, Address]]:
        """Return what waits, and keep nothing."""
        waiting, self.outbox = self.outbox, []
        return waiting

    def _direct(self, member: Member | None, extra: Statement | None, *, introduces: bool) -> list[bytes]:
        statements = [] if extra is None else [encode_statement(extra)]
        is_told = member is not None and self._context.parameters.tells_suspects
        accusation = member.accusation() if member is not None and is_told else None
        if accusation is not None:
            statements.append(encode_statement(accusation))
        context = self._context
        if introduces or context.is_leaving or context.now < context.introduces_until:
            statements.append(encode_statement(context.own_statement()))
        return statements

    def _is_news_waiting(self) -> bool:
        return bool(self._context.broadcasts) or self._context.passenger.has_updates()

    def _add_news(self, statements: list[bytes], room: int, member: Member | None) -> list[bytes]:
        context = self._context
        num_members = context.num_members
        limit = retransmit_limit(context.parameters.retransmit_mult, num_members)
        first = member.host_id if member is not None else None
        passengers = min(context.parameters.passenger_bytes, context.datagram_bytes // PASSENGER_PART)
        taken = context.broadcasts.take(room - passengers, limit, first)
        statements.extend(taken)
        room -= sum(map(len, taken))
        updates = context.passenger.updates_to_send(room, num_members)
        fitting = []
        for update in updates[:MAX_ITEMS]:
            room -= len(update) + FRAMING_BYTES
            if room >= 0:
                fitting.append(update)
        if len(fitting) < len(updates):
            context.counters["drops/passenger_oversize"] += len(updates) - len(fitting)
        return fitting

    def _digest(self) -> bytes:
        digest = self._context.passenger.digest_to_send(self._context.now)
        if len(digest) <= MAX_DIGEST_BYTES:
            return digest
        self._context.counters["drops/digest_oversize"] += 1
        return b""
