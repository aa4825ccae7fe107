"""Lifeguard's two experiments (arXiv 1707.00788, section V): members that block, and who is then failed."""

from __future__ import annotations

from collections.abc import Mapping

from gpumesh.sim.world import World

FORM_S = 15.0


def interval(world: World, settings: Mapping[str, float]) -> None:
    """Block ``members`` hosts for ``blocked_s``, let them run for ``free_s``, again and again.

    The settings are the paper's C, D and I; all blocked hosts block in step, for at least ``duration_s``.
    """
    world.start_all(over_s=2.0)
    world.run_for(FORM_S)
    victims = world.random.sample(world.hosts, int(settings["members"]))
    numbers = [victim.number for victim in victims]
    end = world.now + settings["duration_s"]
    while world.now < end:
        for victim in victims:
            victim.block(settings["blocked_s"])
        # Impaired throughout, not only while blocked: the paper counts what is said of the others.
        world.truth.impair(numbers, world.now)
        world.run_for(settings["blocked_s"])
        world.truth.impair(numbers, world.now)
        world.run_for(settings["free_s"])


def threshold(world: World, settings: Mapping[str, float]) -> None:
    """Block ``members`` hosts once for ``blocked_s`` and watch what comes of it."""
    world.start_all(over_s=2.0)
    world.run_for(FORM_S)
    victims = world.random.sample(world.hosts, int(settings["members"]))
    world.truth.impair([victim.number for victim in victims], world.now)
    for victim in victims:
        victim.block(settings["blocked_s"])
    world.run_for(settings["blocked_s"] + settings["quiet_s"])
