"""``daemon``: runs the daemon in the foreground, as the unit does."""

from __future__ import annotations

import argparse

from gpumesh.cli.session import Session


def configure_daemon(parser: argparse.ArgumentParser) -> None:
    """Describe ``daemon``; it takes no options but the global ones."""
    parser.description = "Run the daemon in the foreground; under systemd, gpumesh.service does this."


def run_daemon(_: argparse.Namespace, session: Session) -> int:
    """Run until a signal ends it."""
    from gpumesh.daemon.main import run  # noqa: PLC0415 - other commands need not load the daemon

    return run(session.config_path)
