"""What is done to the fleets and what is measured of them."""

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.bench.fleet import Fleet, watch
from tests.bench.process import children, cpu_s, memory

LIMIT_S = 60.0
BREATH_S = 3.0
GRACE_S = 20.0
STOPPED_S, RUN_S = 8.0, 0.05


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report: a measure, and its value for each make by name; None: not measured."""

    measure: str
    unit: str
    values: dict[str, float | None]
    detail: dict[str, Any]


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
            {name: _median(got) for name, got in firsts.items()},
            firsts,
        ),
        Row(f"{how} at {number}: all know", "s", {name: _median(got) for name, got in lasts.items()}, lasts),
    ]


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


def measure_rest(fleets: Sequence[Fleet], for_s: float) -> list[Row]:
    """Leave the fleets alone and measure what a process costs: CPU, memory, and that of its children."""
    pids = {fleet.make.name: [process.pid for process in fleet.processes.values()] for fleet in fleets}
    helpers = {name: [child for pid in own for child in children(pid)] for name, own in pids.items()}
    before = {pid: cpu_s(pid) for group in (pids, helpers) for own in group.values() for pid in own}
    began_at = time.monotonic()
    time.sleep(for_s)
    took_s = time.monotonic() - began_at

    def cpu(own: list[int]) -> float | None:
        return _median([100 * (cpu_s(pid) - before[pid]) / took_s for pid in own])

    number = len(fleets[0].processes)
    held = {name: [memory(pid) for pid in own] for name, own in pids.items()}
    kept = {name: [memory(pid) for pid in own] for name, own in helpers.items()}
    at = f"at rest, {number}"
    rows = [
        Row(f"{at}: CPU of a process", "%", {name: cpu(own) for name, own in pids.items()}, {}),
        Row(f"{at}: CPU of its children", "%", {name: cpu(own) for name, own in helpers.items()}, {}),
        Row(
            f"{at}: RSS of a process",
            "MiB",
            {name: _median([m.rss for m in own]) for name, own in held.items()},
            {},
        ),
        Row(
            f"{at}: PSS of a process",
            "MiB",
            {name: _median([m.pss for m in own]) for name, own in held.items()},
            {},
        ),
        Row(
            f"{at}: PSS of its children",
            "MiB",
            {name: _median([m.pss for m in own]) for name, own in kept.items()},
            {},
        ),
    ]
    for fleet in fleets:
        fleet.poll()
    return rows


def measure_honesty(fleets: Sequence[Fleet], num_starved: int, for_s: float) -> list[Row]:
    """Starve ``num_starved`` processes of each fleet: stopped 8 s, run 0.05 s, again and again.

    Counted are failures declared of processes that were not starved: at all observers, and at healthy ones.
    """
    names = list(fleets[0].processes)
    starved = set(names[1 :: len(names) // num_starved][:num_starved])
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
    setting = f"{num_starved} of {len(names)} starved {for_s:g} s"
    return [
        Row(f"{setting}: healthy failed, at anybody", "", counts["all"], {}),
        Row(f"{setting}: healthy failed, at healthy", "", counts["healthy"], {}),
        Row(f"{setting}: starved failed, at anybody", "", counts["starved"], {}),
    ]


def _signal_all(fleets: Sequence[Fleet], names: set[str], number: signal.Signals) -> None:
    for fleet in fleets:
        for name in names:
            fleet.signal(name, number)


def _median(values: Sequence[float | None]) -> float | None:
    """Return the median; None without values, or if most are unknown, which sort last."""
    if not values:
        return None
    found = median(float("inf") if value is None else value for value in values)
    return None if found == float("inf") else found
