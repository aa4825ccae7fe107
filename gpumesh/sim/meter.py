"""What an engine does in one call: counted in steps, for seconds say more of the machine than of the call.

A step is the entry into, or the return from, a function of Python's or of C's. What the bound catches is work
that grows with what nobody bounded: a loop over a queue inside a loop, a table walked once for each datagram.
"""

from __future__ import annotations

import cProfile
import functools
import gc
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, ParamSpec, TypeVar

from gpumesh.model import Address, Identity
from gpumesh.sim.node import Node, NodeBuilder

BASE_STEPS: Final = 10_000
"""What any call may take."""
STEPS_A_BYTE: Final = 20
"""What each byte that came in adds: the smallest statement is 24 bytes."""
STEPS_AN_ADDRESS: Final = 60
"""What each seed adds: a ping goes to it."""
STEPS_A_ROW: Final = 250
"""What each member adds where the whole table is walked: leases, outlines, the order of probes."""
STEPS_A_SYNCED_MEMBER: Final = 3_000
"""What each member adds where a peer may be told of all: the rows, and all the entries of all the records."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one kind of call may take on top of the base."""

    place: int | None = None
    """Which of its arguments came in from outside."""
    steps_an_item: int = 0
    """For each item of that argument."""
    steps_a_member: int = 0


INPUTS: Final[Mapping[str, Allowance]] = {
    "seed": Allowance(0, STEPS_AN_ADDRESS),
    "handle_datagram": Allowance(0, STEPS_A_BYTE),
    "handle_unreachable": Allowance(),
    "handle_stream_accepted": Allowance(),
    "handle_stream_opened": Allowance(steps_a_member=STEPS_A_ROW),
    "handle_stream_data": Allowance(1, STEPS_A_BYTE, STEPS_A_SYNCED_MEMBER),
    "handle_stream_closed": Allowance(),
    "handle_timer": Allowance(steps_a_member=STEPS_A_ROW),
    "leave": Allowance(),
    "set_health": Allowance(),
}
"""The calls that are counted. A datagram, a refusal or a seed costs the same in a fleet of any size."""

P = ParamSpec("P")
T = TypeVar("T")
OnCall = Callable[[Identity, str, int, int], None]
"""Takes whose engine it was, the call's name, its steps, and how many it may take."""


class Meter:
    """Counts the steps of one call at a time."""

    def __init__(self) -> None:
        self._ticks = itertools.count()
        # A profiler asks its clock at each entry and return: this one's tells no time, it counts.
        self._profiler = cProfile.Profile(self._ticks.__next__, 1.0)

    def measure(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, int]:
        """Return what the call returns, and its steps."""
        # A collection that happens to fall into this call frees what others left and calls those who asked to
        # be told of it: steps, but not this call's.
        is_collecting = gc.isenabled()
        gc.disable()
        before = next(self._ticks)
        self._profiler.enable()
        try:
            result = call(*args, **kwargs)
        finally:
            self._profiler.disable()
            num_steps = next(self._ticks) - before
            if is_collecting:
                gc.enable()
        return result, num_steps


def bound_of(name: str, num_items: int, num_members: int) -> int:
    """Return the most steps of a call of this name that brings so many bytes or addresses.

    ``num_members`` is how many the host knows; it counts for what walks the table only.
    """
    allowance = INPUTS[name]
    return BASE_STEPS + allowance.steps_an_item * num_items + allowance.steps_a_member * num_members


def metering(build: NodeBuilder, is_metered: Callable[[Identity], bool], on_call: OnCall) -> NodeBuilder:
    """Return a builder whose nodes tell of each of their calls, where ``is_metered``."""
    meter = Meter()

    def on_metered(node: Node, identity: Identity, name: str, num_items: int, num_steps: int) -> None:
        bound = bound_of(name, num_items, 0)
        if num_steps > bound:  # looked at only then: it costs as much as most calls
            bound = bound_of(name, num_items, len(node.members()))
        on_call(identity, name, num_steps, bound)

    def build_metered(
        *, identity: Identity, address: Address, random: Random, now: float, unix_offset: float
    ) -> Node:
        node = build(identity=identity, address=address, random=random, now=now, unix_offset=unix_offset)
        if is_metered(identity):
            for name, allowance in INPUTS.items():
                told = functools.partial(on_metered, node, identity, name)
                setattr(node, name, _metered(meter, getattr(node, name), allowance.place, told))
        return node

    return build_metered


def _metered(
    meter: Meter, plain: Callable[..., Any], place: int | None, told: Callable[[int, int], None]
) -> Callable[..., Any]:
    @functools.wraps(plain)
    def call(*arguments: Any) -> Any:
        result, num_steps = meter.measure(plain, *arguments)
        told(0 if place is None else len(arguments[place]), num_steps)
        return result

    return call
