"""Pinging on others' behalf: the far end of an indirect probe, and the nack that says the relay lives."""

from __future__ import annotations

from dataclasses import dataclass

from gpumesh.model import Address
from gpumesh.swim.context import Context
from gpumesh.swim.post import Post
from gpumesh.swim.probe import Probing
from gpumesh.swim.wire import Ack, Nack, Ping, PingReq, RelayedAck


@dataclass(slots=True)
class _Errand:
    asker: Address
    asker_seq: int
    target: str
    ends_at: float
    is_nacked: bool = False


class Relaying:
    """Errands in flight; at most ``num_pending``."""

    def __init__(self, context: Context, post: Post, probing: Probing) -> None:
        self._context = context
        self._post = post
        self._probing = probing
        self._errands: dict[int, _Errand] = {}

    def __len__(self) -> int:
        return len(self._errands)

    def handle_request(self, request: PingReq, asker: Address, now: float) -> None:
        """Ping the target and remember whom to tell."""
        context = self._context
        if len(self._errands) >= context.parameters.num_pending:
            context.counters["drops/errands"] += 1
            return
        seq = self._probing.next_seq()
        self._errands[seq] = _Errand(
            asker, request.seq, request.target, now + context.parameters.probe_interval_s
        )
        member = context.table.get(request.target)
        self._post.send(Ping(seq, request.target), request.address, member, has_news=False)
        if member is not None and member.way != member.address:
            self._post.send(Ping(seq, request.target), member.way, member, has_news=False)
        nack_s = context.parameters.probe_timeout_s * context.parameters.nack_fraction
        context.agenda.set(("errand", seq), now + nack_s)

    def handle_ack(self, ack: Ack, sender: tuple[str, int, int]) -> bool:
        """Pass an answer on; return whether it was for an errand. ``sender``: id, epoch, incarnation."""
        errand = self._errands.get(ack.seq)
        if errand is None:
            return False
        if errand.target != sender[0]:
            return True  # somebody else has the address: the nack that is due says that there is no answer
        del self._errands[ack.seq]
        self._context.agenda.cancel(("errand", ack.seq))
        self._post.send(RelayedAck(errand.asker_seq, *sender), errand.asker)
        return True

    def handle_due(self, seq: int, now: float) -> None:
        """Say that there is no answer yet; later, give the errand up."""
        errand = self._errands.get(seq)
        if errand is None:
            return
        if errand.is_nacked:
            del self._errands[seq]
            return
        errand.is_nacked = True
        self._post.send(Nack(errand.asker_seq), errand.asker)
        self._context.agenda.set(("errand", seq), max(errand.ends_at, now))
