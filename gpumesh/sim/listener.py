"""Who is told what simulated hosts do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gpumesh.model import Event
from gpumesh.swim.ports import SwimEvent

if TYPE_CHECKING:
    from gpumesh.sim.host import SimHost


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
