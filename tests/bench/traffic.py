"""Bytes a second that a host sends at rest, in fleets of growing size, in the simulator's virtual time."""

import gc

from gpumesh.model import Reachability
from gpumesh.sim.engines import builder_for
from gpumesh.sim.swim_node import SwimNode
from gpumesh.sim.world import World
from gpumesh.swim.frames import Row as MemberRow
from gpumesh.swim.statement import Statement
from tests.bench.experiments import Row

SETTLE_S = 60.0
"""Long enough after a mass start that news of it no longer travels."""
MEASURED_S = 60.0
LARGEST_JOINING = 512
"""Larger fleets of bare membership begin as if all had met: their joining takes hours to simulate."""


def bytes_a_host_s(number: int, *, engine: str, settle_s: float, measured_s: float) -> float:
    """Return the payload bytes a second that a host of ``number`` sends while nothing happens."""
    world = World(seed=number, num_hosts=number, build=builder_for(engine, "lan"), watches=())
    gc.disable()  # hundreds of millions of objects that all live until the end
    try:
        if engine == "swim" and number > LARGEST_JOINING:
            _start_acquainted(world)
        else:
            world.start_all(over_s=3.0)
        world.run_for(settle_s)
        before = sum(world.network.sent_bytes.values())
        world.run_for(measured_s)
        return (sum(world.network.sent_bytes.values()) - before) / number / measured_s
    finally:
        gc.enable()


def _start_acquainted(world: World) -> None:
    """Start all hosts, each with the table that a sync would have brought, put where a sync puts it."""
    rows = []
    for host in world.hosts:
        host.resolve_seeds = tuple
        world.start(host)
        rows.append(MemberRow(Statement(Reachability.ALIVE, host.host_id, 1, 0, host.address), 0))
    for host in world.hosts:
        assert isinstance(host.node, SwimNode)
        intake = host.node.swim._intake
        for row in rows:
            if row.statement.host_id != host.host_id:
                intake.handle_row(row, host.now, is_joining=True)


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
