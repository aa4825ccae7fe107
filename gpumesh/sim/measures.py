"""What a run measured: detection times, false failures, traffic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumesh.model import Reachability
from gpumesh.sim.truth import Ending, Life
from gpumesh.sim.watch import Watch
from gpumesh.swim.ports import MemberChanged, SwimEvent

if TYPE_CHECKING:
    from gpumesh.sim.host import SimHost
    from gpumesh.sim.world import World


@dataclass(frozen=True, slots=True)
class Measures:
    """The figures of one run; times in seconds of the world."""

    duration_s: float = 0.0
    num_hosts: int = 0
    first_detected_s: tuple[float, ...] = ()
    """Per crash: until the first living host showed it failed."""
    all_detected_s: tuple[float, ...] = ()
    """Per crash: until the last of those that lived on to the end showed it failed."""
    num_undetected: int = 0
    """Crashes that somebody who lived on never showed, and that no restart replaced."""
    num_false: int = 0
    """Failures declared of hosts that ran and were not impaired (Lifeguard's FP)."""
    num_false_at_healthy: int = 0
    """Those of them declared at hosts that were not impaired either (Lifeguard's FP at healthy)."""
    num_impaired_failed: int = 0
    """Failures declared of hosts that ran, but were impaired: stopped, starved, on a bad link."""
    impaired_detected_s: tuple[float, ...] = ()
    """Per impaired host that was failed for it: seconds from its impairment to the first who showed it."""
    num_suspected: int = 0
    """Suspicions of hosts that ran and were not impaired."""
    agreed_s: tuple[float, ...] = ()
    """How long each wait for agreement took."""
    num_datagrams: int = 0
    num_streams: int = 0
    bytes_a_host_s: float = 0.0
    """Payload bytes a second that a host sent on average, datagrams and streams."""


class MeasureTaker(Watch):
    """Collects the measures of one run while it looks on."""

    def __init__(self) -> None:
        self._detected: dict[tuple[str, int], dict[int, float]] = {}
        self._num_false = 0
        self._num_false_at_healthy = 0
        self._num_impaired_failed = 0
        self._num_suspected = 0
        self._impaired_detected_s: dict[tuple[int, float], float] = {}
        self._agreed_s: list[float] = []

    def handle_change(self, world: World, host: SimHost, change: SwimEvent) -> None:
        """Note detections, false failures and suspicions."""
        if not isinstance(change, MemberChanged):
            return
        life = world.truth.life(change.host_id, change.epoch)
        if life is None:
            return
        if change.after is Reachability.FAILED:
            self._note_failed(world, host, life)
        elif change.after is Reachability.SUSPECT and life.ended_at is None:
            self._num_suspected += not world.truth.is_impaired(life.number, world.now)

    def handle_agreement(self, world: World, rounds_s: float) -> None:
        """Note how long agreement took."""
        del world
        self._agreed_s.append(rounds_s)

    def _note_failed(self, world: World, host: SimHost, life: Life) -> None:
        truth = world.truth
        if life.ended_at is not None:
            seen = self._detected.setdefault((life.host_id, life.epoch), {})
            seen.setdefault(host.number, world.now)
        elif truth.is_impaired(life.number, world.now):
            self._num_impaired_failed += 1
            since = truth.impaired_since(life.number)
            assert since is not None
            self._impaired_detected_s.setdefault((life.number, since), world.now - since)
        elif not truth.were_separated(host.number, life.number, world.now - truth.GRACE_S):
            self._num_false += 1
            self._num_false_at_healthy += not truth.is_impaired(host.number, world.now)

    def take(self, world: World) -> Measures:
        """Return the measures of the run so far."""
        first: list[float] = []
        last: list[float] = []
        num_undetected = 0
        for life in world.truth.lives:
            if life.ending is not Ending.CRASHED or life.ended_at is None:
                continue
            seen = self._detected.get((life.host_id, life.epoch), {})
            if seen:
                first.append(min(seen.values()) - life.ended_at)
            latest = world.truth.latest(life.number)
            if latest is not None and latest.epoch != life.epoch:
                continue
            survivors = {host.number for host in world.running if _lived_through(world, host, life)}
            if survivors and survivors <= seen.keys():
                last.append(max(seen[number] for number in survivors) - life.ended_at)
            elif survivors:
                num_undetected += 1
        return Measures(
            duration_s=world.now,
            num_hosts=len(world.hosts),
            first_detected_s=tuple(first),
            all_detected_s=tuple(last),
            num_undetected=num_undetected,
            num_false=self._num_false,
            num_false_at_healthy=self._num_false_at_healthy,
            num_impaired_failed=self._num_impaired_failed,
            impaired_detected_s=tuple(self._impaired_detected_s.values()),
            num_suspected=self._num_suspected,
            agreed_s=tuple(self._agreed_s),
            num_datagrams=world.network.counts["datagrams"],
            num_streams=world.network.counts["streams"],
            bytes_a_host_s=sum(world.network.sent_bytes.values())
            / max(1, len(world.hosts))
            / max(1e-9, world.now),
        )


def _lived_through(world: World, host: SimHost, death: Life) -> bool:
    life = world.truth.latest(host.number)
    return life is not None and death.ended_at is not None and life.began_at < death.ended_at - 1.0


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the nearest-rank percentile of the values, ``share`` from 0 to 1; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    # A hair less, so that 0.99 of 100 is rank 99 whatever binary fractions make of it.
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


def summary_lines(runs: Iterable[Measures]) -> list[str]:
    """Return a few lines for people that sum up the runs."""
    runs = list(runs)
    count = max(1, len(runs))
    lines = []
    for title, values in (
        ("first to know", [value for run in runs for value in run.first_detected_s]),
        ("all know", [value for run in runs for value in run.all_detected_s]),
        ("impaired failed", [value for run in runs for value in run.impaired_detected_s]),
        ("agreement", [value for run in runs for value in run.agreed_s]),
    ):
        if values:
            shown = " / ".join(f"{percentile(values, share):.2f}" for share in (0.5, 0.99, 1.0))
            lines.append(f"{title:<16} median / 99 % / worst  {shown} s  ({len(values)} times)")
    lines.append(
        f"{'false failures':<16} {sum(run.num_false for run in runs)} "
        f"(at healthy hosts {sum(run.num_false_at_healthy for run in runs)}); "
        f"of impaired hosts {sum(run.num_impaired_failed for run in runs)}; "
        f"suspicions of healthy hosts {sum(run.num_suspected for run in runs)}; "
        f"undetected crashes {sum(run.num_undetected for run in runs)}"
    )
    lines.append(
        f"{'runs with one':<16} {sum(run.num_false > 0 for run in runs)} of a healthy host, "
        f"{sum(run.num_false + run.num_impaired_failed > 0 for run in runs)} of any living host, "
        f"of {len(runs)} runs"
    )
    lines.append(
        f"{'traffic':<16} {sum(run.bytes_a_host_s for run in runs) / count:,.0f} bytes/s a host, "
        f"{sum(run.num_datagrams for run in runs) / count:,.0f} datagrams and "
        f"{sum(run.num_streams for run in runs) / count:,.0f} streams a run"
    )
    return lines
