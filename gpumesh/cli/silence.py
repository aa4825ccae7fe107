"""``gpumesh silence``: for a time, a check's findings on this host are shown and do not count."""

from __future__ import annotations

import argparse
from typing import Final

from gpumesh.cli.formats import Document, span, unix_of
from gpumesh.cli.session import Session
from gpumesh.cli.table import Cell, Column, Row, draw
from gpumesh.cli.terminal import Tone
from gpumesh.config.fields import parse_duration
from gpumesh.errors import RequestError

_COLUMNS: Final = (Column("CHECK"), Column("SUBJECT"), Column("LEFT", is_right=True), Column("REASON"))


def configure_silence(parser: argparse.ArgumentParser) -> None:
    """Add what to silence, and for how long."""
    parser.add_argument(
        "check",
        nargs="?",
        default="",
        help="a check, such as pcie, or one of its findings, such as pcie/width",
    )
    parser.add_argument("--for", dest="length", metavar="TIME", default="", help="for how long, such as 2h")
    parser.add_argument("--gpu", metavar="UUID", default="", help="one card alone: its UUID, or its index")
    parser.add_argument("--reason", default="", help="why, for those who look at the host")
    parser.add_argument("--end", action="store_true", help="end it before its time")
    parser.add_argument("--list", action="store_true", help="show what is silenced")


def run_silence(args: argparse.Namespace, session: Session) -> int:
    """Silence, end or list."""
    if args.list:
        return _list(session)
    if not args.check:
        raise RequestError(
            "which check? `gpumesh status` names those that found something; see docs/health.md"
        )
    if args.end:
        document = session.control().post("/v1/unsilence", {"check": args.check, "gpu": args.gpu})
        return _say(session, document, f"{args.check} counts again")
    if not args.length or not args.reason:
        raise RequestError("say for how long and why: `gpumesh silence CHECK --for 2h --reason WHY`")
    try:
        for_s = parse_duration(args.length)
    except ValueError as error:
        raise RequestError(f"--for {args.length!r}: {error}") from error
    body = {"check": args.check, "gpu": args.gpu, "for_s": for_s, "reason": args.reason}
    document = session.control().post("/v1/silence", body)
    until = f"silenced until {document['until']}"
    return _say(
        session, document, f"{args.check} is {until}; `gpumesh silence {args.check} --end` takes it back"
    )


def _list(session: Session) -> int:
    document = session.daemon().get("/v1/silences")
    if session.is_json:
        session.print_json(document)
    elif not document["silences"]:
        session.terminal.write("nothing is silenced")
    else:
        draw(session.terminal, _COLUMNS, [_row(item, session.clock()) for item in document["silences"]])
    return 0


def _row(item: Document, now: float) -> Row:
    until = unix_of(item["until"])
    left = span(None if until is None else until - now)
    return Row(
        (Cell(item["check"], Tone.STRONG), Cell(item["subject"] or "all"), Cell(left), Cell(item["reason"]))
    )


def _say(session: Session, document: Document, words: str) -> int:
    if session.is_json:
        session.print_json(document)
    else:
        session.terminal.write(words)
    return 0
