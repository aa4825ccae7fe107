"""A bare Swim as a node: membership alone, nobody riding along; what experiments on the detector run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpumesh.model import Event, HealthReport
from gpumesh.sim.node import Known
from gpumesh.swim.engine import Swim
from gpumesh.swim.ports import MemberView, StreamAction, SwimEvent

BEAT_S = 5.0


class NoPassenger:
    """Nobody rides along."""

    def digest_to_send(self, now: float) -> bytes:
        """Return nothing."""
        del now
        return b""

    def handle_digest(self, host_id: str, digest: bytes, now: float) -> None:
        """Ignore it."""

    def has_updates(self) -> bool:
        """Return that there are none."""
        return False

    def updates_to_send(self, limit_bytes: int, num_members: int) -> list[bytes]:
        """Return nothing."""
        del limit_bytes, num_members
        return []

    def handle_update(self, update: bytes, now: float) -> None:
        """Ignore it."""

    def wants_sync_with(self, now: float) -> str | None:
        """Return nobody."""
        del now
        return None

    def outline_to_send(self, num_buckets: int) -> Sequence[int]:
        """Return that nothing is held."""
        return (0,) * num_buckets

    def summary_to_send(self, outline: Sequence[int]) -> bytes:
        """Return nothing."""
        del outline
        return b""

    def pages_to_send(self, summary: bytes) -> list[bytes]:
        """Return nothing."""
        del summary
        return []

    def handle_page(self, page: bytes, now: float) -> None:
        """Ignore it."""

    def forget(self, host_id: str) -> None:
        """Ignore it."""


class SwimNode:
    """Drives a Swim and lets it beat, as the mesh does for the daemon."""

    def __init__(self, swim: Swim, *, now: float, first_beat_s: float) -> None:
        self.swim = swim
        self._bounds = bounds_after_a_turn(swim.queue_limits)
        self._beat_at = now + first_beat_s
        self.seed = self.swim.seed
        self.wants_seeds = self.swim.wants_seeds
        self.handle_datagram = self.swim.handle_datagram
        self.handle_unreachable = self.swim.handle_unreachable
        self.handle_stream_accepted = self.swim.handle_stream_accepted
        self.handle_stream_opened = self.swim.handle_stream_opened
        self.handle_stream_data = self.swim.handle_stream_data
        self.handle_stream_closed = self.swim.handle_stream_closed
        self.datagrams_to_send = self.swim.datagrams_to_send
        self.leave = self.swim.leave

    def handle_timer(self, now: float) -> None:
        """Do what has fallen due, the beat included."""
        if now >= self._beat_at:
            self._beat_at = now + BEAT_S
            self.swim.beat(now)
        self.swim.handle_timer(now)

    def next_deadline(self) -> float | None:
        """Return when something falls due."""
        deadline = self.swim.next_deadline()
        return self._beat_at if deadline is None else min(deadline, self._beat_at)

    def next_stream_action(self) -> StreamAction | None:
        """Drain what is to be done to streams."""
        return self.swim.next_stream_action()

    def next_change(self) -> SwimEvent | None:
        """Drain what changed in its belief."""
        return self.swim.next_event()

    def set_health(self, report: HealthReport, now: float) -> None:
        """Ignore it: nobody here publishes records."""

    def members(self) -> Sequence[MemberView]:
        """Return the member table."""
        return self.swim.members()

    def next_event(self) -> Event | None:
        """Return nothing: it tells people nothing."""
        return None

    def knowledge(self, now: float) -> Mapping[str, Known]:
        """Return nothing: membership is all it knows."""
        del now
        return {}

    def ranking(self, key: str, now: float) -> tuple[str, ...] | None:
        """Return nothing: it places nothing."""
        del key, now
        return ()

    @property
    def counters(self) -> Mapping[str, int]:
        """The engine's counters."""
        return self.swim.counters

    def queues(self) -> Mapping[str, tuple[int, int]]:
        """Return size and bound of each of the engine's queues."""
        sizes = self.swim.queue_sizes
        return {name: (sizes[name], bound) for name, bound in self._bounds.items()}


DRAINED = frozenset({"events", "outbox", "stream_actions"})
"""What a shell empties after each call: what is found there later was forgotten."""


def bounds_after_a_turn(limits: Mapping[str, int]) -> Mapping[str, int]:
    """Return what each store may hold once the shell has done its part."""
    return {name: 0 if name.rpartition("/")[2] in DRAINED else limit for name, limit in limits.items()}
