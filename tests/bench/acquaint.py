"""A simulated fleet that begins as if all had met: what a sync would have brought, put where a sync puts it.

Joining costs each host talk about all the others, which takes hours to simulate for a thousand of them.
"""

from collections.abc import Sequence

from gpumesh.model import Reachability
from gpumesh.records.codec import Entry
from gpumesh.records.engine import RecordChanged, Records
from gpumesh.sim.host import SimHost
from gpumesh.sim.mesh_node import MeshNode
from gpumesh.sim.swim_node import SwimNode
from gpumesh.sim.world import World
from gpumesh.swim.engine import Swim
from gpumesh.swim.frames import Row
from gpumesh.swim.statement import Statement


def start_acquainted(world: World) -> None:
    """Start all hosts, each with the member table and the records of all others, and with no news to tell."""
    rows = []
    for host in world.hosts:
        host.resolve_seeds = tuple
        world.start(host)
        rows.append(Row(Statement(Reachability.ALIVE, host.host_id, 1, 0, host.address), 0))
    entries = [entry for host in world.hosts for entry in _own_entries(host)]
    for host in world.hosts:
        intake = _swim(host)._intake
        for row in rows:
            if row.statement.host_id != host.host_id:
                intake.handle_row(row, host.now, is_joining=True)
        if isinstance(host.node, MeshNode):
            _hand_over(host.node._records, host.host_id, entries)
            host.node.handle_timer(host.now)


def _swim(host: SimHost) -> Swim:
    node = host.node
    assert isinstance(node, SwimNode | MeshNode)
    return node.swim if isinstance(node, SwimNode) else node._swim


def _own_entries(host: SimHost) -> Sequence[Entry]:
    if not isinstance(host.node, MeshNode):
        return ()
    return tuple(host.node._records.entries(host.host_id).values())


def _hand_over(records: Records, own_id: str, entries: Sequence[Entry]) -> None:
    """Put others' entries into the store, one object for all hosts, and not into the queue for gossip."""
    for entry in entries:
        if entry.host_id != own_id:
            records._put(entry)
            records._changed[RecordChanged(entry.host_id, entry.name)] = None
