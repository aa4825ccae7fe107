"""This host's health document: the daemon's, or one look of our own where no daemon answers."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from gpumesh.cli.formats import Document
from gpumesh.cli.problem import ProblemError
from gpumesh.cli.session import Session
from gpumesh.errors import UnreachableError


@dataclass(frozen=True, slots=True)
class HealthSeen:
    """What is known of this host, and by whom."""

    document: Document
    """As ``/v1/status``, or as far as one look can tell."""
    by: str
    """``daemon`` or ``look``."""


def add_no_daemon(parser: argparse.ArgumentParser) -> None:
    """Add the option that leaves the daemon aside."""
    parser.add_argument("--no-daemon", action="store_true", help="look at the cards now, without the daemon")


def see_health(session: Session, *, no_daemon: bool) -> HealthSeen:
    """Return this host's health; a daemon that has not looked yet does not count.

    Errors: UnreachableError only where ``--api`` names a daemon, which a look at this host cannot replace;
    ConfigError for a wrong configuration.
    """
    if not no_daemon:
        try:
            document = session.daemon().get("/v1/status")
        except (UnreachableError, ProblemError):
            if session.api:
                raise
        else:
            if session.api or document.get("probe") is not None:
                return HealthSeen(document, "daemon")
    from gpumesh.daemon.oneshot import look_once  # noqa: PLC0415 - other commands need not load the daemon

    return HealthSeen(look_once(session.config()), "look")
