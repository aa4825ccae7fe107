"""Who looks on while a world runs, and what they report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gpumesh.model import Event
from gpumesh.swim.ports import (
    EpochOvertaken,
    IdentityConflict,
    MemberChanged,
    MemberForgotten,
    MemberView,
    SwimEvent,
)

if TYPE_CHECKING:
    from gpumesh.sim.host import SimHost
    from gpumesh.sim.world import World


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold."""

    invariant: str
    at: float
    """Seconds of the world."""
    observer: str
    """Name of the host in whose belief it showed; empty for the world as a whole."""
    detail: str

    def __str__(self) -> str:
        where = f" at {self.observer}" if self.observer else ""
        return f"{self.at:9.3f} s  {self.invariant}{where}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Call:
    """One call into an engine, in steps (:mod:`gpumesh.sim.meter`)."""

    name: str
    num_steps: int
    bound: int
    """How many it may take, by the bytes that came in and the members that the host knows."""


class Watch:
    """Looks on; each of its methods may call ``world.report``. Overrides take only what they need."""

    def handle_change(self, world: World, host: SimHost, change: SwimEvent) -> None:
        """Look at a change in one host's belief."""

    def handle_event(self, world: World, host: SimHost, event: Event) -> None:
        """Look at what one host tells people."""

    def handle_rows(self, world: World, host: SimHost, rows: Sequence[MemberView]) -> None:
        """Look at one host's whole member table; called for each running host now and then."""

    def handle_turn(self, world: World, host: SimHost) -> None:
        """Look at one host whose engine has just been called, and has said all that it had to say."""

    def handle_call(self, world: World, host: SimHost, call: Call) -> None:
        """Take what one call into an engine cost; told of some hosts only."""

    def handle_agreement(self, world: World, rounds_s: float) -> None:
        """Take the word that all views agreed ``rounds_s`` seconds after they were asked to."""


def describe(change: SwimEvent, name_of: Callable[[str], str]) -> str:
    """Put a change into one line."""
    if isinstance(change, MemberChanged):
        before = change.before or "unknown"
        return (
            f"{name_of(change.host_id)} {before} -> {change.after} "
            f"(epoch {change.epoch}, incarnation {change.incarnation}): {change.reason}"
        )
    if isinstance(change, MemberForgotten):
        return f"{name_of(change.host_id)} forgotten"
    if isinstance(change, IdentityConflict):
        return f"two daemons as {name_of(change.host_id)}: {change.reason}"
    if isinstance(change, EpochOvertaken):
        return f"itself remembered as epoch {change.remembered}, goes on as {change.epoch}"
    return f"itself held {change.held} by {name_of(change.accuser)}, refutes as {change.incarnation}"


class Listener(Protocol):
    """Who watches hosts."""

    def handle_change(self, host: SimHost, change: SwimEvent) -> None:
        """Take a change in the host's belief."""
        ...

    def handle_event(self, host: SimHost, event: Event) -> None:
        """Take what the host tells people."""
        ...

    def handle_turn(self, host: SimHost) -> None:
        """Take the word that the host's engine was called, and has said all."""
        ...

    def handle_fault(self, host: SimHost, name: str, detail: str) -> None:
        """Take a fault of the engine that the shell itself noticed."""
        ...
