"""What an engine does in one call: counted in steps, for seconds say more of the machine than of the call.

A step is the entry into, or the return from, a function of Python's or of C's. What the bound catches is work
that grows with what nobody bounded: a loop over a queue inside a loop, a table walked once for each datagram.
"""

from __future__ import annotations

import cProfile
import functools
import gc
import itertools
from collections.abc import Callable
from random import Random
from typing import Any, Final, ParamSpec, TypeVar

from gpumesh.model import Address, Identity
from gpumesh.sim.node import Node, NodeBuilder

BASE_STEPS: Final = 10_000
"""What any call may take."""
STEPS_A_BYTE: Final = 20
"""What each byte that came in adds: the smallest statement is 24 bytes."""
STEPS_A_MEMBER: Final = 3_000
"""What each row of the member table adds: a sync may send a peer all the entries of all the records."""
INPUTS: Final = {
    "seed": None,
    "handle_datagram": 0,
    "handle_unreachable": None,
    "handle_stream_accepted": None,
    "handle_stream_opened": None,
    "handle_stream_data": 1,
    "handle_stream_closed": None,
    "handle_timer": None,
    "leave": None,
    "set_health": None,
}
"""The calls that are counted, and which of their arguments is the bytes that came in."""

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


def bound_of(num_bytes: int, num_members: int) -> int:
    """Return the most steps of a call that brings so many bytes to a host that knows so many members."""
    return BASE_STEPS + STEPS_A_BYTE * num_bytes + STEPS_A_MEMBER * num_members


def metering(build: NodeBuilder, is_metered: Callable[[Identity], bool], on_call: OnCall) -> NodeBuilder:
    """Return a builder whose nodes tell of each of their calls, where ``is_metered``."""
    meter = Meter()

    def on_metered(node: Node, identity: Identity, name: str, num_bytes: int, num_steps: int) -> None:
        bound = bound_of(num_bytes, 0)
        if num_steps > bound:  # looked at only then: it costs as much as most calls
            bound = bound_of(num_bytes, len(node.members()))
        on_call(identity, name, num_steps, bound)

    def build_metered(
        *, identity: Identity, address: Address, random: Random, now: float, unix_offset: float
    ) -> Node:
        node = build(identity=identity, address=address, random=random, now=now, unix_offset=unix_offset)
        if is_metered(identity):
            for name, place in INPUTS.items():
                told = functools.partial(on_metered, node, identity, name)
                setattr(node, name, _metered(meter, getattr(node, name), place, told))
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
