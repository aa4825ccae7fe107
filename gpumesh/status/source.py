"""What the outside face needs from the daemon, behind a Protocol: values and a feed, never an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gpumesh.health.devices import Probe
from gpumesh.health.silences import Silence
from gpumesh.model import Identity, View
from gpumesh.status.feed import EventFeed


class StatusSource(Protocol):
    """The daemon as the outside face sees it; every method returns at once."""

    def view(self) -> View:
        """Return the fleet as this host sees it now."""
        ...

    def readings(self) -> Probe | None:
        """Return this host's latest raw look at its cards; None before the first."""
        ...

    def identity(self) -> Identity:
        """Return who this daemon run is."""
        ...

    def counters(self) -> Mapping[str, float]:
        """Return the daemon's internals for metrics.

        ``drops/replay`` becomes the counter ``gpumesh_drops_total{reason="replay"}``, ``sent/ping``
        ``gpumesh_sent_total{kind="ping"}``; a plain name becomes the gauge ``gpumesh_<name>``, or a counter
        if it ends in ``_total``.
        """
        ...

    def events(self) -> EventFeed:
        """Return the feed into which the daemon publishes its events."""
        ...

    def silences(self) -> Sequence[Silence]:
        """Return what an operator has silenced on this host, as far as it has not run out."""
        ...

    def is_ready(self) -> tuple[bool, str]:
        """Return whether this host takes new work, and if not, why."""
        ...
