"""``gpumesh gpus``: every card of the fleet, one line each."""

from __future__ import annotations

import argparse
from typing import Final

from gpumesh.cli.findings import counts, finding_lines
from gpumesh.cli.formats import UNKNOWN, Document, model, natural, part_of
from gpumesh.cli.instances import instance_lines
from gpumesh.cli.session import Session
from gpumesh.cli.table import Cell, Column, Row, draw
from gpumesh.cli.terminal import TONE_OF, Terminal, Tone

_COLUMNS: Final = (
    Column("HOST"),
    Column("STATE", drop=1),
    Column("GPU", is_right=True),
    Column("MODEL"),
    Column("VERDICT"),
    Column("FREE", is_right=True),
    Column("USE", drop=2),
    Column("SM", drop=4),
    Column("PCI", drop=5),
    Column("UUID", drop=3),
)


def configure_gpus(_parser: argparse.ArgumentParser) -> None:
    """Add no options."""


def run_gpus(_args: argparse.Namespace, session: Session) -> int:
    """Show all cards."""
    document = session.daemon().get("/v1/gpus")
    if session.is_json:
        session.print_json(document)
        return 0
    gpus = sorted(document["gpus"], key=_position)
    if not gpus:
        session.terminal.write("no GPU is known in this fleet; `gpumesh fleet` says why")
        return 0
    draw(session.terminal, _COLUMNS, [_row(session.terminal, gpu) for gpu in gpus])
    return 0


def _position(gpu: Document) -> tuple[object, ...]:
    index = gpu["index"]
    return natural(gpu["host"]), gpu["host_id"], index is None, index or 0, gpu["uuid"]


def _row(terminal: Terminal, gpu: Document) -> Row:
    telling = [finding for finding in gpu["findings"] if counts(finding)]
    return Row(
        (
            Cell(gpu["host"], Tone.STRONG),
            Cell(gpu["host_state"], TONE_OF.get(gpu["host_state"], Tone.PLAIN)),
            Cell("gone" if gpu["index"] is None else str(gpu["index"])),
            Cell(model(gpu["model"])),
            Cell(gpu["verdict"], TONE_OF.get(gpu["verdict"], Tone.PLAIN)),
            Cell(part_of(gpu["memory_free_bytes"], gpu["memory_bytes"])),
            Cell(use(gpu["busy"])),
            Cell(gpu["capability"] or UNKNOWN),
            Cell(gpu["pci_bus_id"] or UNKNOWN, Tone.SOFT),
            Cell(gpu["uuid"], Tone.SOFT),
        ),
        (*instance_lines(terminal, gpu), *finding_lines(terminal, telling, [gpu], "    ")),
    )


def use(is_busy: bool | None) -> str:
    """Return whether a process computes on the card, as far as the driver says."""
    if is_busy is None:
        return "unknown"
    return "busy" if is_busy else "idle"
