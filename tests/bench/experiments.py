"""What is done to the fleets and what is measured of them."""

import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.bench.fleet import Fleet, running, watch
from tests.bench.makes import Make
from tests.bench.medians import known_median
from tests.bench.row import OWN, Bound, Row

LIMIT_S = 60.0
BREATH_S = 3.0
GRACE_S = 20.0
STOPPED_S, RUN_S = 8.0, 0.05
STARVED_SHARE = 4
"""One in so many is starved."""
MOST_OF_KINSHIP = Bound(0.5, over="kinship")
MOST_FALSE = Bound(0)
MOST_GROWTH = Bound(1.3)


def measure_detection(fleets: Sequence[Fleet], rounds: int, how: str) -> list[Row]:
    """End one process of each fleet at a time, ``rounds`` times; measure until survivors show it failed.

    ``how``: ``kill`` is ``kill -9``, where the kernel goes on answering for the host; ``vanish`` stops the
    process, so that nothing answers any more, as when a host falls off the network.
    """
    firsts: dict[str, list[float]] = {fleet.make.name: [] for fleet in fleets}
    lasts: dict[str, list[float | None]] = {fleet.make.name: [] for fleet in fleets}
    for _ in range(rounds):
        for fleet, (first, last) in zip(fleets, _end_one(fleets, how), strict=True):
            if first is not None:
                firsts[fleet.make.name].append(first)
            lasts[fleet.make.name].append(last)
        watch(fleets, BREATH_S)
    number = len(fleets[0].processes) + rounds
    return [
        Row(
            f"{how} at {number}: first to know",
            "s",
            {name: known_median(got) for name, got in firsts.items()},
            firsts,
        ),
        Row(
            f"{how} at {number}: all know",
            "s",
            {name: known_median(got) for name, got in lasts.items()},
            lasts,
            MOST_OF_KINSHIP if how == "kill" else None,
        ),
    ]


def measure_scale(make: Make, sizes: Sequence[int], rounds: int, settle_s: float, home: Path) -> list[Row]:
    """Run one make's detection in fleets of each size, one after the other; the last row is the growth."""
    rows: list[Row] = []
    for number in sizes:
        with running([make], number, home, settle_s) as fleets:
            rows += [replace(row, bound=None) for row in measure_detection(fleets, rounds, "kill")]
    first, last = (rows[place].values[make.name] for place in (1, -1))
    growth = last / first if first and last else None
    title = f"kill: all know, {sizes[-1]} over {sizes[0]}"
    return [*rows, Row(title, "", {OWN: growth}, {}, MOST_GROWTH)]


def _end_one(fleets: Sequence[Fleet], how: str) -> list[tuple[float | None, float | None]]:
    """End the newest process of each fleet; return when the first and the last survivor showed it."""
    victim = list(fleets[0].processes)[-1]
    marks = [len(fleet.sights) for fleet in fleets]
    began_at = time.monotonic()
    for fleet in fleets:
        if how == "kill":
            fleet.bury(victim)
        else:
            fleet.signal(victim, signal.SIGSTOP)
    survivors = set(fleets[0].processes) - {victim}
    while time.monotonic() < began_at + LIMIT_S:
        watch(fleets, BREATH_S / 10)
        if all(fleet.members[victim] in fleet.failed[name] for fleet in fleets for name in survivors):
            break
    if how != "kill":
        for fleet in fleets:
            fleet.bury(victim)
    results: list[tuple[float | None, float | None]] = []
    for fleet, mark in zip(fleets, marks, strict=True):
        seen: dict[str, float] = {}
        for sight in fleet.sights[mark:]:
            if sight.member == fleet.members[victim] and sight.is_failed and sight.observer in survivors:
                seen.setdefault(sight.observer, sight.at - began_at)
        is_known_to_all = survivors <= seen.keys()
        results.append((min(seen.values(), default=None), max(seen.values()) if is_known_to_all else None))
    return results


def measure_honesty(fleets: Sequence[Fleet], for_s: float) -> list[Row]:
    """Starve a quarter of each fleet's processes: stopped 8 s, run 0.05 s, again and again.

    Counted are failures declared of processes that were not starved: at all observers, and at healthy ones.
    """
    names = list(fleets[0].processes)
    starved = starved_of(names)
    marks = [len(fleet.sights) for fleet in fleets]
    until = time.monotonic() + for_s
    try:
        while time.monotonic() < until:
            _signal_all(fleets, starved, signal.SIGSTOP)
            watch(fleets, STOPPED_S)
            _signal_all(fleets, starved, signal.SIGCONT)
            time.sleep(RUN_S)
    finally:
        _signal_all(fleets, starved, signal.SIGCONT)
    watch(fleets, GRACE_S)
    counts: dict[str, dict[str, float | None]] = {"all": {}, "healthy": {}, "starved": {}}
    for fleet, mark in zip(fleets, marks, strict=True):
        verdicts = [sight for sight in fleet.sights[mark:] if sight.is_failed]
        ill = {fleet.members[name] for name in starved}
        false = [sight for sight in verdicts if sight.member not in ill]
        name = fleet.make.name
        counts["all"][name] = len(false)
        counts["healthy"][name] = sum(sight.observer not in starved for sight in false)
        counts["starved"][name] = len(verdicts) - len(false)
    setting = f"{len(starved)} of {len(names)} starved {for_s:g} s"
    return [
        Row(f"{setting}: healthy failed, at anybody", "", counts["all"], {}),
        Row(f"{setting}: healthy failed, at healthy", "", counts["healthy"], {}, MOST_FALSE),
        Row(f"{setting}: starved failed, at anybody", "", counts["starved"], {}),
    ]


def starved_of(names: Sequence[str]) -> set[str]:
    """Return which processes are starved: one in four, the seed of the others not among them."""
    return set(names[1::STARVED_SHARE][: len(names) // STARVED_SHARE])


def _signal_all(fleets: Sequence[Fleet], names: set[str], number: signal.Signals) -> None:
    for fleet in fleets:
        for name in names:
            fleet.signal(name, number)
