"""The daemon's whole brain as a node: membership, records and leases, driven as the daemon drives them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from random import Random

from gpumesh.config import Config
from gpumesh.mesh.engine import Mesh
from gpumesh.model import Address, HostFacts, HostView, Identity, Request
from gpumesh.placement.rule import place
from gpumesh.sim.node import Known
from gpumesh.sim.swim_node import bounds_after_a_turn
from gpumesh.swim.ports import SwimEvent
from gpumesh.swim.seal import Sealer


class MeshNode(Mesh):
    """A Mesh that lets its membership's own events be seen, of which the daemon sees what the mesh tells."""

    def __init__(
        self,
        *,
        identity: Identity,
        address: Address,
        config: Config,
        sealer: Sealer,
        random: Random,
        now: float,
        unix_offset: float,
    ) -> None:
        self._changes: deque[SwimEvent] = deque()
        super().__init__(
            identity=identity,
            config=config,
            facts=HostFacts(name=identity.name, boot_id=identity.boot_id, version="sim"),
            address=address,
            sealer=sealer,
            random=random,
            now=now,
            unix_offset=unix_offset,
        )
        self._bounds = bounds_after_a_turn(self.queue_limits)

    def _handle_swim_event(self, event: SwimEvent, now: float) -> None:
        self._changes.append(event)
        super()._handle_swim_event(event, now)

    def next_change(self) -> SwimEvent | None:
        """Drain what changed in membership's belief."""
        return self._changes.popleft() if self._changes else None

    def knowledge(self, now: float) -> Mapping[str, Known]:
        """Return what its view shows of each host."""
        return {host.host_id: Known(host.state, host.phase, _said(host)) for host in self.view(now).hosts}

    def ranking(self, key: str, now: float) -> tuple[str, ...] | None:
        """Return the order of hosts for a request of one GPU."""
        view = self.view(now)
        if view.mass_failure:
            return None
        return tuple(candidate.host_id for candidate in place(Request(key=key), view).ranking)

    def queues(self) -> Mapping[str, tuple[int, int]]:
        """Return size and bound of each queue and table."""
        sizes = self.queue_sizes
        return {name: (sizes[name], bound) for name, bound in self._bounds.items()}


def _said(host: HostView) -> Mapping[str, object]:
    said: dict[str, object] = {"facts": host.facts, "admission": (host.admission, host.admission_reason)}
    if host.health is not None:
        said["verdict"] = host.health.verdict
        # By name: a host lists its own cards as its driver does, and others' in an order of its own.
        said.update((f"gpu/{gpu.uuid}", gpu) for gpu in host.health.gpus)
    return said
