"""``gpumesh baseline``: what this host should have and has, a baseline taken from it, and who differs."""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from gpumesh.cli.checkformats import overall_verdict
from gpumesh.cli.formats import UNKNOWN, Document, plural, wrap
from gpumesh.cli.health import add_no_daemon, see_health
from gpumesh.cli.session import Session
from gpumesh.cli.table import Cell, Column, Row, draw
from gpumesh.cli.terminal import Terminal, Tone, clean
from gpumesh.errors import GpumeshError, RequestError

_VERSIONS: Final = ("driver", "cuda", "container-toolkit", "kernel")
_NOT_INSTALLED: Final = "not installed"
_ITEM_COLUMNS: Final = (Column("ITEM"), Column("EXPECTED"), Column("FOUND"), Column("MET"))
_FLEET_COLUMNS: Final = (Column("HOST"), Column("ITEM"), Column("FOUND"), Column("MOST HAVE"))
_MET: Final = {True: ("yes", Tone.GOOD), False: ("no", Tone.BAD), None: ("unknown", Tone.WARN)}


def configure_baseline(parser: argparse.ArgumentParser) -> None:
    """Add what to do with the baseline."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=("show", "capture"),
        default="show",
        help="capture: write one from this host",
    )
    parser.add_argument(
        "--out", metavar="FILE", default="", help="with capture: a new file instead of the screen"
    )
    parser.add_argument(
        "--fleet", action="store_true", help="name the hosts that differ from most of the fleet"
    )
    add_no_daemon(parser)


def run_baseline(args: argparse.Namespace, session: Session) -> int:
    """Show, capture or compare; 1 if something is not met, not known, or differs."""
    if args.out and args.what != "capture":
        raise RequestError("--out: only with `gpumesh baseline capture`")
    if args.fleet and (args.what == "capture" or args.no_daemon):
        raise RequestError("--fleet: asks the daemon about all hosts, and goes with nothing else")
    if args.fleet:
        return _show_fleet(session)
    document = see_health(session, no_daemon=args.no_daemon).document
    if args.what == "capture":
        return _capture(document, args.out, session)
    return _show(document, session)


def _show(document: Document, session: Session) -> int:
    baseline = document["baseline"]
    if baseline is None:
        raise GpumeshError("this host was not held to a baseline yet; the daemon has not looked at it")
    items = baseline["items"]
    if session.is_json:
        session.print_json({"host": document["name"], **baseline})
    else:
        _draw(session.terminal, document["name"], baseline)
    return 0 if all(item["met"] is True for item in items) else 1


def _draw(terminal: Terminal, name: str, baseline: Document) -> None:
    items = baseline["items"]
    num_open = sum(item["met"] is not True for item in items)
    head = "meets its baseline" if num_open == 0 else f"{plural(num_open, 'item')} not met"
    terminal.write(f"{clean(name)}: {head} ({baseline['mode']}, {clean(baseline['source'])})")
    terminal.write()
    rows = []
    for item in items:
        word, tone = _MET[item["met"]]
        cells = (Cell(item["name"], Tone.STRONG), Cell(item["expected"]), Cell(item["found"] or UNKNOWN))
        notes = wrap(f"→ {item['advice']}", terminal.width, "    ") if item["advice"] else []
        rows.append(Row((*cells, Cell(word, tone)), tuple(notes)))
    draw(terminal, _ITEM_COLUMNS, rows)


def _show_fleet(session: Session) -> int:
    document = session.daemon().get("/v1/fleet")
    outliers = document["outliers"]
    if session.is_json:
        session.print_json({"fleet": document["fleet"], "outliers": outliers})
    elif not outliers:
        session.terminal.write("no host differs from most of the fleet")
    else:
        rows = [
            Row(
                (
                    Cell(item["host"], Tone.STRONG),
                    Cell(item["item"]),
                    Cell(item["found"], Tone.WARN),
                    Cell(f"{item['most']} ({item['num_most']} of {item['num_known']})"),
                )
            )
            for item in outliers
        ]
        draw(session.terminal, _FLEET_COLUMNS, rows)
    return 1 if outliers else 0


def _capture(document: Document, out: str, session: Session) -> int:
    verdict = overall_verdict(document)
    if verdict not in {"healthy", "degraded"}:
        raise GpumeshError(
            f"this host is {verdict}: {document['reason']}; take the baseline from a good host"
        )
    content = captured(document, session.clock())
    if not out:
        session.terminal.write(content.rstrip())
        return 0
    try:
        with Path(out).open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError as error:
        raise RequestError(f"--out {out}: is there already; name a new file") from error
    except OSError as error:
        raise RequestError(f"--out {out}: {error.strerror}") from error
    session.terminal.write(f"{out}: written; name it in [baseline] file, and copy it to the other hosts")
    return 0


def captured(document: Document, unix: float) -> str:
    """Return a baseline file that this host meets: its versions, and the conditions that it fulfils."""
    items = {item["name"]: item for item in (document["baseline"] or {"items": ()})["items"]}
    found = {
        "driver": document["driver_version"],
        "cuda": document["cuda_version"],
        "container-toolkit": items.get("container-toolkit", {}).get("found"),
        "kernel": (document["kernel"] or "").partition("-")[0] or None,
    }
    day = datetime.fromtimestamp(unix, timezone.utc).date()
    lines = [f"# Access baseline taken from {clean(document['name'])} on {day}.", ""]
    for name in _VERSIONS:
        version = found[name]
        if version is None or version == _NOT_INSTALLED:
            lines += [f"# [{name}]: {version or 'not known'} on that host, so it is not checked.", ""]
        else:
            key = f'minimum = "{version}"' if name == "container-toolkit" else f'accept = ["{version}"]'
            lines += [f"[{name}]", key, ""]
    fulfilled = [name for name, item in items.items() if name not in _VERSIONS and item["met"] is True]
    quoted = ", ".join(f'"{name}"' for name in fulfilled)
    return "\n".join([*lines, "[host]", f"require = [{quoted}]", ""])
