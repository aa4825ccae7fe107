"""Bytes a second that a host sends at rest, in fleets of growing size, in the simulator's virtual time."""

import gc

from gpumesh.sim.engines import builder_for
from gpumesh.sim.world import World
from tests.bench.acquaint import start_acquainted
from tests.bench.row import OWN, Bound, Row

SETTLE_S = 60.0
"""Long enough after a mass start that news of it no longer travels."""
MEASURED_S = 60.0
LARGEST_JOINING = {"swim": 512, "mesh": 128}
"""Larger fleets begin acquainted (:mod:`tests.bench.acquaint`)."""
MOST_GROWTH = Bound(1.3)


def bytes_a_host_s(
    number: int, *, engine: str, settle_s: float, measured_s: float, is_acquainted: bool | None = None
) -> float:
    """Return the payload bytes a second that a host of ``number`` sends while nothing happens.

    ``is_acquainted``: whether the fleet begins as if all had met; None: if it is too large to join.
    """
    world = World(seed=number, num_hosts=number, build=builder_for(engine, "lan"), watches=())
    gc.disable()  # hundreds of millions of objects that all live until the end
    try:
        if number > LARGEST_JOINING[engine] if is_acquainted is None else is_acquainted:
            start_acquainted(world)
        else:
            world.start_all(over_s=3.0)
        world.run_for(settle_s)
        before = sum(world.network.sent_bytes.values())
        world.run_for(measured_s)
        return (sum(world.network.sent_bytes.values()) - before) / number / measured_s
    finally:
        gc.enable()


def measure_traffic(sizes: tuple[int, ...], engine: str) -> list[Row]:
    """Run a fleet at rest of each size; the last row is the most over the least."""
    rows: list[Row] = []
    found: list[float] = []
    for number in sizes:
        found.append(bytes_a_host_s(number, engine=engine, settle_s=SETTLE_S, measured_s=MEASURED_S))
        rows.append(Row(f"at rest, {number} simulated: bytes a host sends", "B/s", {OWN: found[-1]}, {}))
        gc.collect()  # a world is full of cycles, and the next one is larger
    rows.append(Row("bytes: most over least", "", {OWN: max(found) / min(found)}, {}, MOST_GROWTH))
    return rows
