"""Findings on a host whose identity or address another has, too, for as long as membership hears of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from gpumesh.model import Event, View

KIND: Final = "host.conflict"
CONFLICT_CLEARS_S: Final = 240.0
"""How long after it was last heard of a conflict stands: membership repeats it once in one to two minutes."""
_ADVICE: Final = {
    "identity": "stop the daemon of one of the two; where the state directory was copied from the other "
    "host, delete identity.json there, and it starts as a host of its own",
    "address": "give one of the two another address: look for `gossip.advertise` copied from another host, "
    "two machines with one IP address, or two behind one NAT address and port",
}


@dataclass(frozen=True, slots=True)
class _Conflict:
    told_at: float
    host_id: str
    address: str


class Doubles:
    """What the latest word of each kind of conflict was, and when."""

    def __init__(self) -> None:
        self._latest: dict[str, _Conflict] = {}

    def handle_event(self, event: Event, now: float) -> None:
        """Take an event of the mesh; those that concern other hosts, or are no conflicts, change nothing."""
        shared = event.fields.get("shared")
        if event.kind != KIND or not event.fields.get("is_here") or shared not in _ADVICE:
            return
        self._latest[str(shared)] = _Conflict(now, event.host_id, str(event.fields.get("address")))

    def standing(self, view: Callable[[], View], now: float) -> Iterator[tuple[str, str, str]]:
        """Yield check, reason and advice of each conflict that was heard of lately.

        ``view`` gives the fleet as seen now: the other host's name may have come after the conflict.
        """
        for shared, conflict in self._latest.items():
            if now - conflict.told_at >= CONFLICT_CLEARS_S:
                continue
            host_id, address = conflict.host_id, conflict.address
            if shared == "address":
                other = view().host(host_id)
                named = f"{other.name} ({host_id})" if other and other.facts else host_id
                reason = f"this host and {named} both claim {address}"
            else:
                reason = f"another daemon runs as this host ({host_id}); it was heard of at {address}"
            yield f"host-{shared}", reason, _ADVICE[shared]
