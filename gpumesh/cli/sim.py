"""``sim``: the fleet's own engines in virtual time, many seeds a scenario."""

from __future__ import annotations

import argparse

from gpumesh.cli.session import Session


def configure_sim(parser: argparse.ArgumentParser) -> None:
    """Describe ``sim``."""
    from gpumesh.sim.run import add_arguments  # noqa: PLC0415 - other commands need not load the simulator

    add_arguments(parser)


def run_sim(args: argparse.Namespace, _: Session) -> int:
    """Run what was asked for; it needs no daemon."""
    from gpumesh.sim.run import run  # noqa: PLC0415 - other commands need not load the simulator

    return run(args)
