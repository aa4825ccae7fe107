"""Reads what ``nvidia-smi -q`` prints: indented lines of ``name : value``, card by card.

The text form and not ``-x``: it is what the captures hold, so that reading it is tested where there is no
card.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
_INDENT = 4
_LINE = re.compile(r"^(?P<indent> *)(?P<name>\S.*?)(?: +: (?P<value>.*))?$")
_GPU = re.compile(r"^GPU (?P<address>[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)$")
_SECTION = re.compile(r"^#+\n# (?P<title>\w+ :: .*)\n(?:# \$ .*\n)?#+\n", re.MULTILINE)
_ABSENT = re.compile(r"N/A|\[.*\]|Requested functionality has been deprecated|Not Found|Unknown Error")
_DEPRECATED = re.compile(r" \[Deprecated; .*\]$")
_LISTED = {"Processes": "GPU instance ID", "MIG Device": "Index"}
"""Sections that hold one thing after the other → the line with which each begins."""

Route = tuple[str, ...]
"""Names of the sections that a line stands in, and its own."""


@dataclass(slots=True)
class Block:
    """Lines by where they stand; a value that is not available is None."""

    lines: dict[Route, str | None] = field(default_factory=dict)

    def get(self, *route: str) -> str | None:
        """The value of that line; None where it, or a section around it, is not available or not printed."""
        return self.lines.get(route)

    def has(self, *route: str) -> bool:
        """Whether it is printed, available or not; a section that is "N/A" stands for its lines."""
        return any(route[:length] in self.lines for length in range(1, len(route) + 1))


@dataclass(slots=True)
class SmiGpu(Block):
    """One card as nvidia-smi prints it."""

    address: str = ""
    processes: list[Block] = field(default_factory=list)
    mig_devices: list[Block] = field(default_factory=list)


@dataclass(slots=True)
class Smi(Block):
    """The whole output: the driver's lines, and the cards in their order."""

    gpus: list[SmiGpu] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Capture:
    """One capture's sections by title."""

    name: str
    sections: Mapping[str, str]

    def query(self, load: str) -> Smi:
        """What ``nvidia-smi -q`` printed under ``idle`` or ``load``."""
        return parse(self.sections[f"{load} :: query (-q)"])

    @property
    def nvml_version(self) -> str:
        found = re.search(r"^NVML version +: (\S+)$", self.sections["capabilities :: version"], re.MULTILINE)
        assert found is not None
        return found[1]

    @property
    def num_nvlinks(self) -> int | None:
        """Links that are up; None if the card has none."""
        return (
            len(re.findall(r"^\s+Link \d+: ", self.sections["capabilities :: nvlink -s"], re.MULTILINE))
            or None
        )


def captures() -> list[Capture]:
    """All captures of this folder."""
    return [_capture(path) for path in sorted(FOLDER.glob("*__*.txt"))]


def _capture(path: Path) -> Capture:
    _, *parts = _SECTION.split(path.read_text())
    return Capture(path.stem, dict(zip(parts[::2], parts[1::2], strict=True)))


def parse(text: str) -> Smi:
    """Read the output of ``nvidia-smi -q``."""
    smi = Smi()
    block: Block = smi
    route: Route = ()
    for indent, name, value in _lines(text):
        if indent == 0 and (found := _GPU.match(name)):
            block = SmiGpu(address=found["address"])
            smi.gpus.append(block)
            continue
        depth = indent // _INDENT - (block is not smi)
        route = (*route[:depth], name)
        _place(block, route, value)
    return smi


def _place(block: Block, route: Route, value: str | None) -> None:
    listed = route[0] if route[0] in _LISTED and len(route) > 1 else None
    if listed is None or not isinstance(block, SmiGpu):
        if value is not None:
            block.lines[route] = _available(value)
        return
    items = block.processes if listed == "Processes" else block.mig_devices
    if route[1:] == (_LISTED[listed],):
        items.append(Block())
    if value is not None:
        # What a process is stands one step further in than its number.
        items[-1].lines[route[-1:] if listed == "Processes" else route[1:]] = _available(value)


def _lines(text: str) -> Iterator[tuple[int, str, str | None]]:
    for line in text.splitlines():
        found = _LINE.match(line.rstrip())
        if found and not line.startswith("="):
            yield len(found["indent"]), found["name"].rstrip(), found["value"]


def _available(value: str) -> str | None:
    value = _DEPRECATED.sub("", value).strip()
    return None if _ABSENT.fullmatch(value) else value
