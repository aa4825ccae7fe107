"""``daemon``: runs the daemon in the foreground, as the unit does."""

from __future__ import annotations

import argparse
import os

from gpumesh.cli.session import Session


def configure_daemon(parser: argparse.ArgumentParser) -> None:
    """Describe ``daemon``; it takes no options but the global ones."""
    parser.description = "Run the daemon in the foreground; under systemd, gpumesh.service does this."


def run_daemon(_: argparse.Namespace, session: Session) -> int:
    """Run until a signal ends it."""
    # aiohttp's lists of signal handlers: compiled, they alone load the C++ library, a MiB in each daemon.
    os.environ.setdefault("FROZENLIST_NO_EXTENSIONS", "1")
    from gpumesh.daemon.main import run  # noqa: PLC0415 - other commands need not load the daemon

    return run(session.config_path)
