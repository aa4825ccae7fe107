"""The table of commands. A module is imported only when its command is called: the start stays quick.

A command ``name`` is two functions in its module: ``configure_name(parser)`` adds its options and
``run_name(args, session)`` returns the exit code: 0 fine, 1 the answer is no, 2 usage, 3 no daemon.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from gpumesh.cli.session import Session

Configure = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace, Session], int]


@dataclass(frozen=True, slots=True)
class Command:
    """One sub-command."""

    name: str
    summary: str
    """One line for the list of commands."""
    module: str

    def load(self) -> tuple[Configure, Run]:
        """Import the module and return the command's two functions."""
        module, suffix = import_module(self.module), self.name.replace("-", "_")
        configure: Configure = getattr(module, f"configure_{suffix}")
        run: Run = getattr(module, f"run_{suffix}")
        return configure, run


COMMANDS: Final = (
    Command(
        "status", "this host, or another by name: state, GPUs, findings and what to do", "gpumesh.cli.status"
    ),
    Command(
        "check",
        "one line on this host's health, with or without a daemon; exit code 1 if it is not healthy",
        "gpumesh.cli.check",
    ),
    Command(
        "baseline",
        "what this host should have and has, and what to do; capture one, or compare the fleet",
        "gpumesh.cli.baseline",
    ),
    Command("fleet", "all hosts", "gpumesh.cli.fleet"),
    Command("top", "all hosts, drawn again each two seconds", "gpumesh.cli.fleet"),
    Command("gpus", "all GPUs of the fleet", "gpumesh.cli.gpus"),
    Command("place", "where work should run, and why not elsewhere", "gpumesh.cli.place"),
    Command("cordon", "take no new work on this host", "gpumesh.cli.admission"),
    Command("uncordon", "take work again", "gpumesh.cli.admission"),
    Command(
        "drain",
        "take no new work; what runs should end, then the driver is let go of",
        "gpumesh.cli.admission",
    ),
    Command("silence", "for a time, let a check's findings on this host not count", "gpumesh.cli.silence"),
    Command(
        "release",
        "for a time, let go of the driver, so that it can be upgraded or unbound",
        "gpumesh.cli.release",
    ),
    Command("events", "what happens, as it happens", "gpumesh.cli.events"),
    Command("init", "make this host the first of a fleet: key and configuration", "gpumesh.cli.setup"),
    Command("token", "print what the next host needs to join", "gpumesh.cli.setup"),
    Command("join", "join the fleet that a token names", "gpumesh.cli.setup"),
    Command("keys", "the fleet's keys on this host: list, add, use, remove", "gpumesh.cli.keys"),
    Command("leave", "say goodbye to the fleet and stop", "gpumesh.cli.setup"),
    Command("daemon", "run the daemon in the foreground, as systemd does", "gpumesh.cli.run"),
    Command("demo", "a fleet on this machine with simulated GPUs, some of which fail", "gpumesh.cli.demo"),
    Command(
        "sim", "a fleet in virtual time: loss, partitions, crashes, and what must hold", "gpumesh.cli.sim"
    ),
)
