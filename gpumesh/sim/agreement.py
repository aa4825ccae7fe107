"""Whether the views of a simulated fleet agree with the truth and so with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gpumesh.model import HostState, Reachability
from gpumesh.sim.node import Known
from gpumesh.sim.truth import Ending, Life
from gpumesh.swim.ports import MemberView

if TYPE_CHECKING:
    from gpumesh.sim.host import SimHost
    from gpumesh.sim.world import World


Knowledge = Mapping[str, Mapping[str, Known]]
RESTING = frozenset({"broadcasts", "doubts", "gossip", "strangers"})
"""Queues that must be empty once nothing has happened for a while."""
GONE_ROWS = frozenset({Reachability.FAILED, Reachability.LEFT})
DOUBTED_STATES = frozenset({HostState.FAILED, HostState.LEFT, HostState.SUSPECT})


def find_disagreement(world: World) -> tuple[SimHost, str] | None:
    """Return the first running host whose view differs from the truth, and how; None when all agree."""
    living = world.running
    # Tables first, and all of them: they are cheap to look at, and seldom right while the records are not.
    for host in living:
        detail = _wrong_table(world, host)
        if detail is not None:
            return host, detail
    known = {host.host_id: host.node.knowledge(host.now) for host in living if host.node is not None}
    for host in living:
        detail = _wrong_knowledge(world, host, known)
        if detail is not None:
            return host, detail
    return None


def find_unrest(world: World) -> tuple[SimHost, str] | None:
    """Return a running host that still has news to tell or doubts to settle; None when all are at rest."""
    for host in world.running:
        assert host.node is not None
        for name, (size, _) in host.node.queues().items():
            if size and name.rpartition("/")[2] in RESTING:
                return host, f"{name} still holds {size}"
    return None


def _visible(world: World, host: SimHost) -> Iterator[tuple[SimHost, Life]]:
    for other in world.hosts:
        life = world.truth.latest(other.number)
        if life is not None and not world.conditions.is_cut(host.number, other.number):
            yield other, life


def _wrong_table(world: World, host: SimHost) -> str | None:
    assert host.node is not None
    rows = {row.host_id: row for row in host.node.members()}
    for other, life in _visible(world, host):
        row = rows.pop(other.host_id, None)
        wrong = _wrong_about(life, row)
        if wrong is None and row is not None and life.ended_at is None and row.address != other.address:
            wrong = f"is reached at {other.address}, and is held to be at {row.address}"
        if wrong is not None:
            return f"{other.identity.name} {wrong}"
    if rows and not world.conditions.groups:
        return f"knows hosts that do not exist: {sorted(rows)}"
    return None


def _wrong_knowledge(world: World, host: SimHost, known: Knowledge) -> str | None:
    assert host.node is not None
    rows = {row.host_id: row for row in host.node.members()}
    for other, life in _visible(world, host):
        shown = known[host.host_id].get(other.host_id)
        wrong = _wrong_state(life, rows.get(other.host_id), shown)
        if wrong is not None:
            return f"{other.identity.name} {wrong}"
        says = known.get(other.host_id, {}).get(other.host_id)
        if says is not None and (shown is None or shown.said != says.said):
            return f"{other.identity.name} {_difference(says.said, shown.said if shown else {})}"
    return None


def _wrong_about(life: Life, row: MemberView | None) -> str | None:
    if row is None:
        return "is alive, and is not known here" if life.ended_at is None else None
    if row.epoch < life.epoch and life.ended_at is not None and row.reachability in GONE_ROWS:
        # Its last run may have been known only to hosts that are gone, too.
        return None
    if row.epoch != life.epoch:
        return f"runs as epoch {life.epoch}, and is held for epoch {row.epoch} ({row.reachability})"
    if life.ended_at is None:
        is_right = row.reachability is Reachability.ALIVE
        return None if is_right else f"is alive, and is held {row.reachability}"
    right = Reachability.LEFT if life.ending is Ending.LEFT else Reachability.FAILED
    if row.reachability is right:
        return None
    return f"has {life.ending.value if life.ending else 'ended'}, and is held {row.reachability}"


def _wrong_state(life: Life, row: MemberView | None, shown: Known | None) -> str | None:
    if shown is None or row is None:
        return None
    if life.ended_at is None:
        return f"is alive, and is shown {shown.state}" if shown.state in DOUBTED_STATES else None
    right = HostState(row.reachability.value)
    return None if shown.state is right else f"is held {right}, and is shown {shown.state}"


def _difference(says: Mapping[str, object], shown: Mapping[str, object]) -> str:
    names = says.keys() | shown.keys()
    first = min(name for name in names if says.get(name) != shown.get(name))
    return f"says {first} = {says.get(first)}, and is shown with {shown.get(first)}"
