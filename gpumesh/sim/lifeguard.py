"""Lifeguard's two experiments (arXiv 1707.00788, section V): members that block, and who is then failed.

A member blocks in one of two ways:

``process``
    As in the paper, where a member blocks before it sends and after it receives: the next ping stays in its
    blocked send, no further round begins, and suspicions that come due are told on waking. Programs whose
    timers are threads of their own judge before they read what came in meanwhile; gpumesh's single loop,
    blocked as a whole, reads first and sees the gap.
``network``
    Harder: nothing goes out and nothing is read, while timers and rounds of probes run on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpumesh.sim.host import SimHost
from gpumesh.sim.world import World

FORM_S: Final = 15.0
READ_S: Final = 1e-4
"""What a packet that waited takes to be read on waking: ten of them in a millisecond of freedom."""
BLOCKS: Final = ("process", "network")


def interval(
    world: World, settings: Mapping[str, float], block: str = "network", *, is_threaded: bool = False
) -> None:
    """Block ``members`` hosts for ``blocked_s``, let them run for ``free_s``, again and again.

    The settings are the paper's C, D and I; all blocked hosts block in step, for at least ``duration_s``.
    """
    victims = _choose(world, int(settings["members"]))
    numbers = [victim.number for victim in victims]
    end = world.now + settings["duration_s"]
    while world.now < end:
        _block(victims, settings["blocked_s"], block, is_threaded=is_threaded)
        # Impaired throughout, not only while blocked: the paper counts what is said of the others.
        world.truth.impair(numbers, world.now)
        world.run_for(settings["blocked_s"])
        world.truth.impair(numbers, world.now)
        world.run_for(settings["free_s"])


def threshold(
    world: World, settings: Mapping[str, float], block: str = "network", *, is_threaded: bool = False
) -> None:
    """Block ``members`` hosts once for ``blocked_s`` and watch what comes of it."""
    victims = _choose(world, int(settings["members"]))
    world.truth.impair([victim.number for victim in victims], world.now)
    _block(victims, settings["blocked_s"], block, is_threaded=is_threaded)
    world.run_for(settings["blocked_s"] + settings["quiet_s"])


def _choose(world: World, num: int) -> list[SimHost]:
    world.start_all(over_s=2.0)
    world.run_for(FORM_S)
    return world.random.sample(world.hosts, num)


def _block(victims: list[SimHost], blocked_s: float, block: str, *, is_threaded: bool) -> None:
    for victim in victims:
        if block != "process":
            victim.block(blocked_s)
            continue
        victim.read_s = READ_S
        if is_threaded:
            victim.block(blocked_s, holds_probes=True)
        else:
            victim.stall(blocked_s)
