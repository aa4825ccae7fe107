"""``daemon``: runs the daemon in the foreground, as the unit does."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator

from gpumesh.cli.session import Session


def configure_daemon(parser: argparse.ArgumentParser) -> None:
    """Describe ``daemon``; it takes no options but the global ones."""
    parser.description = "Run the daemon in the foreground; under systemd, gpumesh.service does this."


def run_daemon(_: argparse.Namespace, session: Session) -> int:
    """Run until a signal ends it."""
    with without_tls():
        from gpumesh.daemon.main import run  # noqa: PLC0415 - other commands need not load the daemon

    return run(session.config_path)


@contextlib.contextmanager
def without_tls() -> Iterator[None]:
    """Let what is imported meanwhile find no ``ssl``, as on a Python that was built without it.

    asyncio and aiohttp load OpenSSL and all certificate authorities at import, 5 MB in each daemon;
    it speaks plain HTTP, and gossip has its own encryption.
    """
    if "ssl" in sys.modules:
        yield
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["ssl"]
