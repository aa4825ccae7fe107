"""``gpumesh place``: where work should run, what to try next, and why not elsewhere."""

from __future__ import annotations

import argparse
from typing import Final

from gpumesh.cli.formats import Document, model, natural, wrap
from gpumesh.cli.session import Session
from gpumesh.cli.terminal import Terminal, Tone, clean
from gpumesh.errors import RequestError

_MAX_NEXT: Final = 8


def configure_place(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``place``; the daemon checks the values."""
    parser.add_argument(
        "--key", required=True, help="names the work: the same key, the same answer everywhere"
    )
    parser.add_argument("--gpus", metavar="N", help="how many GPUs, all on one host (1)")
    parser.add_argument("--memory", metavar="SIZE", help="free memory needed on each GPU, such as 20GiB")
    parser.add_argument("--model", metavar="TEXT", help="part of the model's name, such as 4080")
    parser.add_argument("--capability", metavar="X.Y", help="lowest CUDA compute capability, such as 8.0")
    parser.add_argument("--driver", metavar="VERSION", help="lowest driver version")
    parser.add_argument("--cuda", metavar="VERSION", help="lowest CUDA version the driver must support")
    parser.add_argument(
        "--label", metavar="NAME=VALUE", action="append", default=[], help="a label to be carried; repeatable"
    )
    parser.add_argument(
        "--avoid",
        metavar="HOST",
        action="append",
        default=[],
        help="not this host, by name or id; repeatable",
    )
    parser.add_argument(
        "--no-degraded", action="store_true", help="not the healthy GPUs of a degraded host either"
    )


def run_place(args: argparse.Namespace, session: Session) -> int:
    """Ask where the work should run; exit code 1 if nowhere."""
    document = session.daemon().get("/v1/placement", query_of(args))
    if session.is_json:
        session.print_json(document)
    else:
        draw_decision(session.terminal, document)
    return 0 if document["chosen"] else 1


def query_of(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the query that the options stand for. Errors: :class:`RequestError`, a label without value."""
    names = ("key", "gpus", "memory", "model", "capability", "driver", "cuda")
    query = [(name, str(value)) for name in names if (value := getattr(args, name)) is not None]
    for label in args.label:
        name, equals, value = label.partition("=")
        if not name or not equals:
            raise RequestError(f"--label {label!r}: must be NAME=VALUE, such as room=2")
        query.append((f"label.{name}", value))
    query.extend(("avoid", host) for host in args.avoid)
    if args.no_degraded:
        query.append(("allow_degraded", "false"))
    return query


def draw_decision(terminal: Terminal, document: Document) -> None:
    """Write the answer, the next ones to try, and a line for each host that cannot."""
    chosen = document["chosen"]
    if chosen is None:
        terminal.write(terminal.paint("nowhere", Tone.BAD) + f": {clean(document['reason'])}")
    else:
        terminal.write(f"run on {terminal.paint(clean(chosen['host']), Tone.GOOD)}")
        for gpu in chosen["gpus"]:
            index = "GPU" if gpu["index"] is None else f"GPU {gpu['index']}"
            name = f"  {model(gpu['model'])}" if gpu["model"] else ""
            terminal.write(f"  {index}{name}  {terminal.paint(clean(gpu['uuid']), Tone.SOFT)}")
        names = [clean(item["host"]) for item in document["ranking"][1:]]
        if names:
            more = f" and {len(names) - _MAX_NEXT} more" if len(names) > _MAX_NEXT else ""
            terminal.write(f"if it refuses: {', '.join(names[:_MAX_NEXT])}{more}")
    rejections = sorted(document["rejections"], key=lambda item: (natural(item["host"]), item["host_id"]))
    if rejections:
        terminal.write("not on:")
    width = max((len(clean(item["host"])) for item in rejections), default=0)
    for item in rejections:
        lead = f"  {clean(item['host']):<{width}}  "
        for line in wrap(item["reason"], terminal.width, lead, " " * len(lead)):
            terminal.write(line)
