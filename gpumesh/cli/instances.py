"""The MIG instances of a card, one line each under it."""

from __future__ import annotations

from typing import Final

from gpumesh.cli.formats import Document, part_of
from gpumesh.cli.terminal import Terminal, Tone, clean, display_width, shorten

_INDENT: Final = "    "


def instance_lines(terminal: Terminal, gpu: Document) -> list[str]:
    """Return each instance: which one, its size, its memory, how busy it is, and who runs in it.

    Nothing for a card that is whole, or of another host: only its own instances are known to a host.
    """
    rows = [_cells(item) for item in gpu.get("mig_instances") or ()]
    widths = [max(display_width(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell + " " * (width - display_width(cell)) for cell, width in zip(row, widths, strict=True)]
        line = _INDENT + "  ".join(cell for cell in cells if cell).rstrip()
        if terminal.width is not None:
            line = shorten(line, terminal.width)
        lines.append(terminal.paint(line, Tone.SOFT))
    return lines


def _cells(instance: Document) -> tuple[str, ...]:
    used, total = instance.get("memory_used_bytes"), instance.get("memory_total_bytes")
    return (
        f"MIG {instance['gpu_instance']}/{instance['compute_instance']}",
        clean(instance["profile"]),
        "" if used is None and total is None else f"{part_of(used, total)} used",
        _percent(instance.get("utilization_gpu_percent"), "busy"),
        _processes(instance.get("num_processes")),
        _percent(instance.get("utilization_sm_percent"), "of SMs"),
        _percent(instance.get("utilization_memory_bandwidth_percent"), "of bandwidth"),
    )


def _percent(value: float | None, what: str) -> str:
    return "" if value is None else f"{value:3.0f} % {what}"


def _processes(number: int | None) -> str:
    if number is None:
        return ""
    return "1 process" if number == 1 else f"{number} processes"
