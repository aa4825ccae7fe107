"""Bytes a second that a host sends at rest, in fleets of growing size, in the simulator's virtual time."""

import gc

from gpumesh.sim.engines import builder_for
from gpumesh.sim.world import World
from tests.bench.experiments import Row

SETTLE_S = 60.0
"""Long enough after a mass start that news of it no longer travels."""
MEASURED_S = 60.0


def bytes_a_host_s(number: int, *, engine: str, settle_s: float, measured_s: float) -> float:
    """Return the payload bytes a second that a host of ``number`` sends while nothing happens."""
    world = World(seed=number, num_hosts=number, build=builder_for(engine, "lan"), watches=())
    world.start_all(over_s=3.0)
    world.run_for(settle_s)
    before = sum(world.network.sent_bytes.values())
    world.run_for(measured_s)
    return (sum(world.network.sent_bytes.values()) - before) / number / measured_s


def measure_traffic(sizes: tuple[int, ...], engine: str) -> list[Row]:
    """Run a fleet at rest of each size; the last row is the most over the least."""
    rows: list[Row] = []
    found: list[float] = []
    for number in sizes:
        found.append(bytes_a_host_s(number, engine=engine, settle_s=SETTLE_S, measured_s=MEASURED_S))
        rows.append(
            Row(f"at rest, {number} simulated: bytes a host sends", "B/s", {"gpumesh": found[-1]}, {})
        )
        gc.collect()  # a world is full of cycles, and the next one is larger
    rows.append(Row("bytes: most over least", "", {"gpumesh": max(found) / min(found)}, {}))
    return rows
