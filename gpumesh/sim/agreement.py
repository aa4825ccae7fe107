"""Whether the views of a simulated fleet agree with the truth and so with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumesh.model import Reachability
from gpumesh.sim.truth import Ending, Life
from gpumesh.swim.ports import MemberView

if TYPE_CHECKING:
    from gpumesh.sim.host import SimHost
    from gpumesh.sim.world import World


def find_disagreement(world: World) -> tuple[SimHost, str] | None:
    """Return the first running host whose view differs from the truth, and how; None when all agree."""
    living = world.running
    own = {host.host_id: host.node.knowledge().get(host.host_id) for host in living if host.node is not None}
    for host in living:
        detail = _disagreement_of(world, host, own)
        if detail is not None:
            return host, detail
    return None


def _disagreement_of(world: World, host: SimHost, own: dict[str, str | None]) -> str | None:
    assert host.node is not None
    rows = {row.host_id: row for row in host.node.members()}
    known = host.node.knowledge()
    for other in world.hosts:
        life = world.truth.latest(other.number)
        if life is None or world.conditions.is_cut(host.number, other.number):
            continue
        name = other.identity.name
        row = rows.pop(other.host_id, None)
        wrong = _wrong_about(life, row)
        if wrong is not None:
            return f"{name} {wrong}"
        if other.host_id in own and known.get(other.host_id) != own[other.host_id]:
            return f"knows {known.get(other.host_id)} of {name}, which says {own[other.host_id]} of itself"
    if rows and not world.conditions.groups:
        return f"knows hosts that do not exist: {sorted(rows)}"
    return None


def _wrong_about(life: Life, row: MemberView | None) -> str | None:
    if row is None:
        return "is alive, and is not known here" if life.ended_at is None else None
    if row.epoch != life.epoch:
        return f"runs as epoch {life.epoch}, and is held for epoch {row.epoch} ({row.reachability})"
    if life.ended_at is None:
        is_right = row.reachability is Reachability.ALIVE
        return None if is_right else f"is alive, and is held {row.reachability}"
    right = Reachability.LEFT if life.ending is Ending.LEFT else Reachability.FAILED
    if row.reachability is right:
        return None
    return f"has {life.ending.value if life.ending else 'ended'}, and is held {row.reachability}"
