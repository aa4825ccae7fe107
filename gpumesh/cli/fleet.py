"""``gpumesh fleet`` and ``gpumesh top``: all hosts, one line each, and under the unfit ones why."""

from __future__ import annotations

import argparse
import io
import time
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Final

from gpumesh.cli.findings import counts, finding_lines, findings_of
from gpumesh.cli.formats import UNKNOWN, Document, age, model, natural, part_of, plural, since, wrap
from gpumesh.cli.session import Session
from gpumesh.cli.table import Cell, Column, Row, draw
from gpumesh.cli.terminal import TONE_OF, Terminal, Tone, clean

WATCH_S: Final = 2.0
_CLEAR: Final = "\x1b[H\x1b[2J"
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_MAX_NOTES: Final = 3
_PAST: Final = ("failed", "left")  # what its record says of its GPUs is no longer known
_COLUMNS: Final = (
    Column("HOST"),
    Column("STATE"),
    Column("FOR", is_right=True, drop=4),
    Column("GPUS", is_right=True),
    Column("MODEL", drop=2),
    Column("FREE", is_right=True, drop=1),
    Column("DRIVER", drop=5),
    Column("CUDA", drop=6),
    Column("HEARD", is_right=True, drop=3),
    Column("ADDRESS", drop=7),
)


def configure_fleet(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``fleet``."""
    parser.add_argument(
        "-w", "--watch", action="store_true", help="draw again each two seconds until interrupted"
    )


def run_fleet(args: argparse.Namespace, session: Session) -> int:
    """Show the fleet."""
    if args.watch:
        return watch(session)
    document = session.daemon().get("/v1/fleet")
    if session.is_json:
        session.print_json(document)
    else:
        draw_fleet(session.terminal, document, session.clock())
    return 0


def configure_top(_parser: argparse.ArgumentParser) -> None:
    """Add no options: ``top`` is ``fleet --watch``."""


def run_top(_args: argparse.Namespace, session: Session) -> int:
    """Show the fleet again and again."""
    return watch(session)


def watch(session: Session, pause_s: float = WATCH_S) -> int:
    """Draw the fleet each ``pause_s`` until interrupted; on a terminal on a screen of its own."""
    out, is_screen = session.terminal.out, session.terminal.width is not None and not session.is_json
    daemon = session.daemon()
    document = daemon.get("/v1/fleet")
    out.write(_ENTER if is_screen else "")
    try:
        while True:
            if session.is_json:
                session.print_json(document)
            else:
                page = io.StringIO()
                draw_fleet(_current(session.terminal, page), document, session.clock())
                out.write((_CLEAR if is_screen else "") + page.getvalue())
            out.flush()
            time.sleep(pause_s)
            document = daemon.get("/v1/fleet")
    except KeyboardInterrupt:
        return 0
    finally:
        out.write(_LEAVE if is_screen else "")
        out.flush()


def _current(terminal: Terminal, page: io.StringIO) -> Terminal:
    """Return a terminal that writes into ``page``, as wide as the real one is now."""
    if terminal.width is None:
        return replace(terminal, out=page)
    return replace(terminal.resized(), out=page)


def draw_fleet(terminal: Terminal, document: Document, now: float) -> None:
    """Write the fleet as of ``now``, Unix seconds."""
    hosts = sorted(document["hosts"], key=lambda host: (natural(host["name"]), host["host_id"]))
    for line in _headline(terminal, document, hosts):
        terminal.write(line)
    if document["mass_failure"]:
        words = "more than half of the fleet failed at once: this host suspects itself, not them"
        terminal.write(terminal.paint(words, Tone.BAD))
    terminal.write()
    outliers: defaultdict[str, list[Document]] = defaultdict(list)
    for item in document["outliers"]:
        outliers[item["host_id"]].append(item)
    draw(terminal, _COLUMNS, [_row(terminal, host, outliers[host["host_id"]], now) for host in hosts])


def _headline(terminal: Terminal, document: Document, hosts: list[Document]) -> list[str]:
    """Return what the fleet is and the count of each state, the counts a line each if they do not fit one."""
    me = next(clean(host["name"]) for host in hosts if host["self"])
    name = terminal.paint(clean(document["fleet"]), Tone.STRONG)
    size = f"{plural(document['num_hosts'], 'host')}, {plural(document['num_gpus'], 'GPU')}"
    counts = [
        (f"{number} {state}", TONE_OF.get(state, Tone.PLAIN)) for state, number in document["states"].items()
    ]
    painted = [terminal.paint(text, tone) for text, tone in counts]
    taken = sum(len(text) + 2 for text, _ in counts)
    states = [", ".join(painted)] if terminal.width is None or taken <= terminal.width else painted
    return [f"{name}: {size}, seen by {me}", *states]


def _row(terminal: Terminal, host: Document, outliers: list[Document], now: float) -> Row:
    gpus, is_past = host["gpus"], host["reachability"] in _PAST
    fit = sum(gpu["verdict"] == "healthy" for gpu in gpus)
    tone = Tone.PLAIN if fit == len(gpus) and not is_past else Tone.WARN
    return Row(
        (
            Cell(host["name"] + ("*" if host["self"] else ""), Tone.STRONG),
            Cell(host["state"], TONE_OF.get(host["state"], Tone.PLAIN)),
            Cell(since(host["since"], now)),
            Cell(f"{'?' if is_past else fit}/{len(gpus)}" if gpus else "0", tone),
            Cell(models(gpus)),
            Cell(UNKNOWN if is_past else _free(gpus)),
            Cell(host["driver_version"] or UNKNOWN),
            Cell(host["cuda_version"] or UNKNOWN),
            Cell("self" if host["self"] else age(host["evidence_age_s"])),
            Cell(host["address"], Tone.SOFT),
        ),
        (*_notes(terminal, host), *_differences(terminal, outliers)),
    )


def _differences(terminal: Terminal, outliers: list[Document]) -> list[str]:
    """Return in what a host differs from most of the fleet; it is told, and no fault by itself."""
    if not outliers:
        return []
    parts = [
        f"{item['item']} {item['found']}, not {item['most']} as {item['num_most']} of {item['num_known']}"
        for item in outliers
    ]
    lines = wrap(f"differs from most: {'; '.join(parts)}", terminal.width, "    ")
    return [terminal.paint(line, Tone.SOFT) for line in lines]


def models(gpus: list[Document]) -> str:
    """Return ``2 x RTX 4080 SUPER, RTX 2080``."""
    counts = Counter(model(gpu["model"]) for gpu in gpus)
    return (
        ", ".join(name if number == 1 else f"{number} x {name}" for name, number in counts.items()) or UNKNOWN
    )


def _free(gpus: list[Document]) -> str:
    known = [gpu for gpu in gpus if gpu["memory_bytes"] is not None and gpu["memory_free_bytes"] is not None]
    if not known:
        return UNKNOWN
    return part_of(sum(gpu["memory_free_bytes"] for gpu in known), sum(gpu["memory_bytes"] for gpu in known))


def _notes(terminal: Terminal, host: Document) -> list[str]:
    """Return why the host is not ready, once, and the worst findings with what to do."""
    telling = [finding for finding in findings_of(host) if counts(finding)]
    lines: list[str] = []
    if host["reason"] and not any(finding["reason"] in host["reason"] for finding in telling):
        lines.extend(terminal.paint(line, Tone.SOFT) for line in wrap(host["reason"], terminal.width, "    "))
    lines.extend(finding_lines(terminal, telling[:_MAX_NOTES], host["gpus"], "    "))
    if len(telling) > _MAX_NOTES:
        more = f"    and {len(telling) - _MAX_NOTES} more: gpumesh status {clean(host['name'])}"
        lines.append(terminal.paint(more, Tone.SOFT))
    return lines
