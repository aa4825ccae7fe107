"""The engines that a simulated host can run: bare membership, or the daemon's whole brain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Final

from gpumesh.config import Config, GossipConfig
from gpumesh.errors import RequestError
from gpumesh.model import Address, Identity
from gpumesh.sim.keys import KeyBook
from gpumesh.sim.mesh_node import MeshNode
from gpumesh.sim.node import Node, NodeBuilder
from gpumesh.sim.swim_node import BEAT_S, NoPassenger, SwimNode
from gpumesh.swim.engine import Swim
from gpumesh.swim.parameters import Parameters
from gpumesh.swim.seal import SESSION_BYTES

ENGINES: Final = ("mesh", "swim")
PROFILES: Final = ("lan", "wan", "local")
FLEET: Final = "sim"


def parameters_for(profile: str, overrides: Mapping[str, float]) -> Parameters:
    """Return a profile's parameters with some replaced. Errors: RequestError names what is wrong."""
    base = Parameters.for_profile(profile)
    values: dict[str, float] = {}
    for name, value in overrides.items():
        default = getattr(base, name, None)
        if not isinstance(default, int | float):
            raise RequestError(f"the membership protocol has no parameter {name!r}")
        values[name] = int(value) if isinstance(default, int) else value
    return replace(base, **values)  # type: ignore[arg-type]  # each was converted to its field's own type


def builder_for(
    engine: str, profile: str, overrides: Mapping[str, float] | None = None, keys: KeyBook | None = None
) -> NodeBuilder:
    """Return what builds the nodes of a run: ``engine`` is one of ENGINES, ``profile`` one of PROFILES.

    Without ``keys`` the fleet is unkeyed.
    """
    book = keys or KeyBook(FLEET)
    parameters = parameters_for(profile, overrides or {})
    if overrides and engine != "swim":
        raise RequestError("membership's parameters can be replaced with --engine swim only")
    config = Config(gossip=GossipConfig(fleet=FLEET, profile=profile))

    def build_swim(
        *, identity: Identity, address: Address, random: Random, now: float, unix_offset: float
    ) -> Node:
        del unix_offset
        swim = Swim(
            identity=identity,
            address=address,
            fleet=FLEET,
            parameters=parameters,
            sealer=book.sealer(identity.host_id, random.randbytes(SESSION_BYTES)),
            passenger=NoPassenger(),
            random=random,
            now=now,
        )
        return SwimNode(swim, now=now, first_beat_s=random.uniform(0.0, BEAT_S))

    def build_mesh(
        *, identity: Identity, address: Address, random: Random, now: float, unix_offset: float
    ) -> Node:
        return MeshNode(
            identity=identity,
            address=address,
            config=config,
            sealer=book.sealer(identity.host_id, random.randbytes(SESSION_BYTES)),
            random=random,
            now=now,
            unix_offset=unix_offset,
        )

    return build_swim if engine == "swim" else build_mesh
