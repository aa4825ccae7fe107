"""What members say about members, and which of two statements holds.

One rule settles every disagreement: statements about one member are totally ordered by :func:`precedence`,
and the greatest wins wherever and in whichever order they arrive. All views therefore converge without a
vote, and a datagram that is late, doubled or replayed changes nothing.

- A newer **epoch** (the daemon started again) beats everything older: a dead run never lives again, and a
  restarted host need not refute its former self (consul#4806, memberlist#157). Epochs are counted, never
  taken from a clock (scylla#5164).
- A goodbye (**left**) is final for its epoch: it comes from the member itself, so it is no accusation that
  could be refuted, and it is never mixed up with a timeout.
- Then the **incarnation**, which the member alone raises: to refute, or to change its address.
- At one incarnation failed beats suspect beats alive (SWIM, section 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpumesh.model import Address, Reachability


@dataclass(frozen=True, slots=True)
class Statement:
    """One claim about one member at one epoch and incarnation."""

    kind: Reachability
    host_id: str
    epoch: int
    incarnation: int
    address: Address | None = None
    """Always given with alive and in syncs; left out where it would only cost bytes."""
    accuser: str = ""
    """Who claims it, for suspect and failed; empty otherwise."""
    is_refused: bool = False
    """The accused's kernel said that nobody listens there: its daemon died, its host lives."""


@dataclass(frozen=True, slots=True)
class Vouch:
    """``voucher`` has just had an answer from the member itself, at this epoch and incarnation.

    It is evidence and no state, so it has no place in the order: it makes hearsay wait, and the member's own
    refutation settles the matter.
    """

    host_id: str
    epoch: int
    incarnation: int
    voucher: str


RANK: Final = {Reachability.ALIVE: 0, Reachability.SUSPECT: 1, Reachability.FAILED: 2, Reachability.LEFT: 3}

Precedence = tuple[int, bool, int, int]


def precedence(kind: Reachability, epoch: int, incarnation: int) -> Precedence:
    """Return the key by which statements about one member are ordered; the greatest holds."""
    if kind is Reachability.LEFT:  # final, whichever of its incarnations said goodbye
        return epoch, True, 0, RANK[kind]
    return epoch, False, incarnation, RANK[kind]


TRANSITIONS: Final[dict[tuple[Reachability | None, Reachability], str]] = {
    (None, Reachability.ALIVE): "joined",
    (None, Reachability.SUSPECT): "met as suspect",
    (None, Reachability.FAILED): "met as failed",
    (None, Reachability.LEFT): "met as left",
    (Reachability.ALIVE, Reachability.ALIVE): "renewed",
    (Reachability.ALIVE, Reachability.SUSPECT): "suspected",
    (Reachability.ALIVE, Reachability.FAILED): "failed",
    (Reachability.ALIVE, Reachability.LEFT): "left",
    (Reachability.SUSPECT, Reachability.ALIVE): "refuted",
    (Reachability.SUSPECT, Reachability.SUSPECT): "suspected anew",
    (Reachability.SUSPECT, Reachability.FAILED): "failed",
    (Reachability.SUSPECT, Reachability.LEFT): "left",
    (Reachability.FAILED, Reachability.ALIVE): "returned",
    (Reachability.FAILED, Reachability.SUSPECT): "returned as suspect",
    (Reachability.FAILED, Reachability.FAILED): "failed anew",
    (Reachability.FAILED, Reachability.LEFT): "left",
}
"""Every change of reachability within one epoch, and its name. From ``left`` only a new epoch leads on, and a
new epoch is judged as if the member had not been known."""
