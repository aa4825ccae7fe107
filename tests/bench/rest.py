"""What a process costs while nothing happens: processor time and memory, its children's included."""

import time
from collections.abc import Callable, Mapping, Sequence

from tests.bench.fleet import Fleet
from tests.bench.medians import known_median
from tests.bench.process import MIB, children, cpu_s, memory, tree_cpu_s
from tests.bench.row import Bound, Row

MOST_CPU = Bound(1.0, over="serf")
MOST_RSS = Bound(55e6 / MIB / MIB, is_exclusive=True)
"""55 MB."""
RSS_HOSTS = 32
"""The largest fleet that the bound of memory is about."""


class _Share:
    """The share of one processor that each make's processes take from now on."""

    def __init__(self, pids: Mapping[str, list[int]], read: Callable[[int], float]) -> None:
        self._read = read
        self._before = {name: {pid: read(pid) for pid in own} for name, own in pids.items()}

    def taken(self, took_s: float) -> dict[str, float | None]:
        """Return the median of each make, in percent."""
        return {
            name: known_median([100 * (self._read(pid) - before) / took_s for pid, before in own.items()])
            for name, own in self._before.items()
        }


def measure_rest(fleets: Sequence[Fleet], for_s: float) -> list[Row]:
    """Leave the fleets alone and measure what a process costs: CPU, memory, and that of its children.

    What is compared is the sum: what a make does in processes of its own is work all the same.
    """
    pids = {fleet.make.name: [process.pid for process in fleet.processes.values()] for fleet in fleets}
    helpers = {name: [child for pid in own for child in children(pid)] for name, own in pids.items()}
    whole = _Share(pids, tree_cpu_s)
    own = _Share(pids, cpu_s)
    theirs = _Share(helpers, tree_cpu_s)
    began_at = time.monotonic()
    time.sleep(for_s)
    took_s = time.monotonic() - began_at
    at = f"at rest, {len(fleets[0].processes)}"
    rows = [
        Row(f"{at}: CPU of a process with its children", "%", whole.taken(took_s), {}, MOST_CPU),
        Row(f"{at}: CPU of a process itself", "%", own.taken(took_s), {}),
        Row(f"{at}: CPU of one of its children", "%", theirs.taken(took_s), {}),
        *_memory_rows(at, pids, helpers, MOST_RSS if len(fleets[0].processes) <= RSS_HOSTS else None),
    ]
    for fleet in fleets:
        fleet.poll()
    return rows


def _memory_rows(
    at: str, pids: Mapping[str, list[int]], helpers: Mapping[str, list[int]], most: Bound | None
) -> list[Row]:
    held = {name: [memory(pid) for pid in own] for name, own in pids.items()}
    kept = {name: [memory(pid) for pid in own] for name, own in helpers.items()}
    rss = {name: known_median([one.rss for one in own]) for name, own in held.items()}
    pss = {name: known_median([one.pss for one in own]) for name, own in held.items()}
    theirs = {name: known_median([one.pss for one in own]) for name, own in kept.items()}
    return [
        Row(f"{at}: RSS of a process", "MiB", rss, {}, most),
        Row(f"{at}: PSS of a process", "MiB", pss, {}),
        Row(f"{at}: PSS of one of its children", "MiB", theirs, {}),
    ]
