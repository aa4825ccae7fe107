"""Finding the fleet: when to ask for seeds, and whom of them to call.

Seeds and cached peers are names to the shell, which resolves them anew each time (consul#22753: resolved
once, and the only seed had moved). While nobody is known they are asked for with growing waits, for ever;
later now and then, so that two fleets started apart from different seeds become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpumesh.model import Address
from gpumesh.swim.context import Context
from gpumesh.swim.fields import canonical
from gpumesh.swim.probe import Probing
from gpumesh.swim.sync import Streams

SEEDS: Final = ("seeds", None)
NUM_PINGED: Final = 16
"""Seeds asked by datagram in one attempt; a cache of peers may hold thousands."""
NUM_CALLED: Final = 3
"""Seeds called by stream in one attempt."""
SETTLED_FACTOR: Final = 10.0


class Seeding:
    """The waits between attempts, and the attempts."""

    def __init__(self, context: Context, probing: Probing, streams: Streams) -> None:
        self._context = context
        self._probing = probing
        self._streams = streams
        self._tried_at = float("-inf")
        self._wait_s = context.parameters.seed_retry_s
        context.agenda.set(SEEDS, context.now)

    def wants_seeds(self, now: float) -> bool:
        """Return whether the shell should resolve the seeds and hand them in."""
        return not self._context.is_leaving and now >= self._next_at()

    def seed(self, addresses: Sequence[Address], now: float) -> None:
        """Call seeds that are not known to be members, a bounded number of them."""
        context = self._context
        self._tried_at = now
        is_alone = context.table.num_live == 0
        grown_s = min(self._wait_s * 2, context.parameters.seed_retry_max_s)
        self._wait_s = grown_s if is_alone else context.parameters.seed_retry_s
        unknown = self._unknown(addresses)
        chosen = context.random.sample(unknown, min(NUM_PINGED, len(unknown)))
        for address in chosen:
            self._probing.ask_seed(address, now)
        for address in chosen[:NUM_CALLED]:
            self._streams.open(address, now)
        context.agenda.set(SEEDS, self._next_at())

    def handle_due(self, now: float) -> None:
        """Wake the shell, which looks at ``wants_seeds``; wake it again should it be due and hand none in."""
        self._context.agenda.set(SEEDS, max(now + self._wait_s, self._next_at()))

    def arrange(self, now: float) -> None:
        """Have the shell woken sooner, if this host has lost everybody."""
        if self._context.table.num_live == 0 and not self._context.is_leaving:
            soonest_at = now + self._context.parameters.seed_retry_s
            self._context.agenda.set_earlier(SEEDS, max(soonest_at, self._next_at()))

    def _next_at(self) -> float:
        if self._context.table.num_live == 0:
            return self._tried_at + self._wait_s
        return self._tried_at + self._context.parameters.seed_retry_max_s * SETTLED_FACTOR

    def _unknown(self, addresses: Sequence[Address]) -> list[Address]:
        unknown: dict[Address, None] = {}
        for given in addresses:
            try:
                address = canonical(given)
            except ValueError:
                self._context.counters["drops/bad_seed"] += 1
                continue
            member = self._context.table.at(address)
            if address != self._context.address and (member is None or not member.is_live):
                unknown[address] = None
        return list(unknown)
