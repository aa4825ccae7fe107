"""``gpumesh cordon``, ``uncordon`` and ``drain``: the owner's word on new work."""

from __future__ import annotations

import argparse

from gpumesh.cli.session import Session


def configure_cordon(parser: argparse.ArgumentParser) -> None:
    """Add the reason."""
    parser.add_argument("reason", nargs="*", help="why, for those who look at the fleet")


def run_cordon(args: argparse.Namespace, session: Session) -> int:
    """Take no new work on this host."""
    return _change(session, "cordon", args.reason, "cordoned: no new work; `gpumesh uncordon` takes it back")


def configure_drain(parser: argparse.ArgumentParser) -> None:
    """Add the reason."""
    configure_cordon(parser)


def run_drain(args: argparse.Namespace, session: Session) -> int:
    """Take no new work; what runs should end or move."""
    return _change(
        session,
        "drain",
        args.reason,
        "draining: no new work, and what runs should end or move; `gpumesh uncordon` takes it back",
    )


def configure_uncordon(_parser: argparse.ArgumentParser) -> None:
    """Add no options."""


def run_uncordon(_args: argparse.Namespace, session: Session) -> int:
    """Take work again."""
    return _change(session, "uncordon", [], "open: this host takes work again")


def _change(session: Session, verb: str, reason: list[str], done: str) -> int:
    document = session.control().post(f"/v1/{verb}", {"reason": " ".join(reason)})
    if session.is_json:
        session.print_json(document)
    else:
        session.terminal.write(done)
    return 0
