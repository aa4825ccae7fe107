"""``gpumesh release``: for a time, let go of the driver, so that it can be upgraded, reloaded or unbound."""

from __future__ import annotations

import argparse

from gpumesh.cli.session import Session
from gpumesh.config.fields import parse_duration
from gpumesh.errors import RequestError


def configure_release(parser: argparse.ArgumentParser) -> None:
    """Add for how long, and why."""
    parser.add_argument("reason", nargs="*", help="why, for those who look at the host")
    parser.add_argument("--for", dest="length", metavar="TIME", default="15m", help="for how long (15m)")
    parser.add_argument("--end", action="store_true", help="take it up again before that")


def run_release(args: argparse.Namespace, session: Session) -> int:
    """Let go, or take up again; 1 if the driver is stuck and cannot be let go of."""
    if args.end:
        document = session.control().post("/v1/unrelease", {})
        return _say(session, document, "the driver is taken up again", 0)
    try:
        for_s = parse_duration(args.length)
    except ValueError as error:
        raise RequestError(f"--for {args.length!r}: {error}") from error
    document = session.control().post("/v1/release", {"for_s": for_s, "reason": " ".join(args.reason)})
    if not document["released"]:
        words = "not let go of yet: the look under way has not ended; `gpumesh status` says in which call"
        return _say(session, document, words, 1)
    words = f"let go of until {document['until']}; `gpumesh release --end` takes it up again"
    return _say(session, document, words, 0)


def _say(session: Session, document: dict[str, object], words: str, code: int) -> int:
    if session.is_json:
        session.print_json(document)
    else:
        session.terminal.write(words)
    return code
