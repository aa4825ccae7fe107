"""``daemon``: runs the daemon in the foreground, as the unit does."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gpumesh.cli.session import Session

_AUTHORITIES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Where OpenSSL reads certificate authorities instead of the system's place."""


def configure_daemon(parser: argparse.ArgumentParser) -> None:
    """Describe ``daemon``; it takes no options but the global ones."""
    parser.description = "Run the daemon in the foreground; under systemd, gpumesh.service does this."


def run_daemon(_: argparse.Namespace, session: Session) -> int:
    """Run until a signal ends it."""
    # aiohttp's lists of signal handlers: compiled, they alone load the C++ library, a MiB in each daemon.
    os.environ.setdefault("FROZENLIST_NO_EXTENSIONS", "1")
    with _no_authorities():
        from gpumesh.daemon.main import run  # noqa: PLC0415 - other commands need not load the daemon

    return run(session.config_path)


@contextmanager
def _no_authorities() -> Iterator[None]:
    """Have no certificate authorities read in meanwhile.

    Newer versions of aiohttp read all that the system trusts when they are imported, for clients: two MiB in
    each daemon, which calls nobody by TLS.
    """
    before = {name: os.environ.get(name) for name in _AUTHORITIES}
    os.environ.update(dict.fromkeys(_AUTHORITIES, os.devnull))
    try:
        yield
    finally:
        for name, place in before.items():
            os.environ.pop(name, None)
            if place is not None:
                os.environ[name] = place
