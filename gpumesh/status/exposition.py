"""The Prometheus text format, version 0.0.4, written from plain values.

prometheus-client sorts labels and renames every counter to ``…_total``; dcgm-exporter's counters have no such
suffix, and its dashboards ask for the names as they are. So the families are written here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
Labels = Sequence[tuple[str, str]]


@dataclass(slots=True)
class Family:
    """One metric and its samples."""

    name: str
    type: str
    """``gauge`` or ``counter``."""
    help: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def add(self, value: float | None, labels: Labels = ()) -> None:
        """Add a sample; a value that is not known is left out, never written as zero."""
        if value is not None and math.isfinite(value):
            self.samples.append((labels, float(value)))


def render(families: Iterable[Family]) -> str:
    """Return the exposition; families without a sample are left out."""
    lines: list[str] = []
    for family in families:
        if not family.samples:
            continue
        lines.append(f"# HELP {family.name} {_escape_help(family.help)}")
        lines.append(f"# TYPE {family.name} {family.type}")
        lines.extend(f"{family.name}{_labels(labels)} {_number(value)}" for labels, value in family.samples)
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels) + "}"


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escape_label(text: str) -> str:
    return _escape_help(text).replace('"', '\\"')
