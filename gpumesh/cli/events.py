"""``gpumesh events``: what happened, then what happens, one line each."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

from gpumesh.cli.client import DaemonClient
from gpumesh.cli.formats import UNKNOWN, Document
from gpumesh.cli.session import Session
from gpumesh.cli.terminal import Terminal, Tone, clean
from gpumesh.errors import UnreachableError

RETRY_S: Final = 2.0
_TONES: Final = {
    "host.failed": Tone.BAD,
    "gpu.lost": Tone.BAD,
    "xid": Tone.WARN,
    "host.conflict": Tone.WARN,
    "host.suspected": Tone.WARN,
    "host.joined": Tone.GOOD,
    "host.refuted": Tone.GOOD,
    "host.left": Tone.SOFT,
}


def configure_events(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``events``."""
    parser.add_argument(
        "--since",
        metavar="WHEN",
        default="start",
        help="an age such as 10m, an instant such as 2026-01-31T12:00:00Z, or start (all that is kept)",
    )
    parser.add_argument("--no-follow", action="store_true", help="end after the kept events")


def run_events(args: argparse.Namespace, session: Session) -> int:
    """Write events until interrupted; with JSON one object a line."""
    daemon, query = session.daemon(), [("since", args.since)]

    def show(event: Document) -> None:
        if session.is_json:
            session.terminal.write(json.dumps(event, ensure_ascii=False))
        else:
            session.terminal.write(event_line(session.terminal, event))
        session.terminal.out.flush()

    try:
        if args.no_follow:
            for message in daemon.events([*query, ("follow", "false")]):
                show(message.data)
            return 0
        return _follow(daemon, query, show, session.terminal)
    except KeyboardInterrupt:
        return 0


def _follow(
    daemon: DaemonClient, query: list[tuple[str, str]], show: Callable[[Document], None], terminal: Terminal
) -> int:
    """Follow across restarts of the daemon, missing nothing it still keeps; only the first try may fail."""
    last_id, is_connected = "", False
    while True:
        try:
            for message in daemon.events(query, last_id):
                is_connected = True
                if message.name == "message":
                    last_id = message.id
                    show(message.data)
                else:
                    terminal.complain(clean(str(message.data.get("reason", message.name))))
            is_connected = True
        except UnreachableError as error:
            if not is_connected and not last_id:
                raise
            terminal.complain(f"{str(error).splitlines()[0]}; trying again")
        time.sleep(RETRY_S)


def event_line(terminal: Terminal, event: Document) -> str:
    """Return ``12:00:01  host.failed  pc03  reason``, the time in the local zone."""
    at = UNKNOWN
    if event["time"]:
        moment = datetime.fromisoformat(event["time"].replace("Z", "+00:00")).astimezone()
        at = moment.strftime("%Y-%m-%d %H:%M:%S")
    kind = terminal.paint(f"{clean(event['kind']):<16}", _TONES.get(event["kind"], Tone.PLAIN))
    subject = "" if event["subject"] in ("host", "") else f" {clean(event['subject'])}"
    host = terminal.paint(clean(event["host"]), Tone.STRONG)
    return f"{terminal.paint(at, Tone.SOFT)}  {kind}  {host}{subject}: {clean(event['reason'])}".rstrip(": ")
