"""One check in the words of each asker: its line and its exit codes.

- Nagios, Icinga (Monitoring Plugins guidelines): 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN; the text, a bar, and
  performance data ``label=value[unit];warn;crit;min``.
- node-problem-detector (custom plugin monitor): 0 OK, 1 NonOK, anything else Unknown; the message is cut at
  ``max_output_length``, 80 bytes by default.
- Slurm (slurm.conf(5), HealthCheckProgram): what is to be done the program does itself; the line is meant as
  the reason that it gives, and the code as its decision.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gpumesh.cli.formats import Document, plural
from gpumesh.cli.terminal import TONE_OF, Terminal, clean

OK, FAILED = 0, 1
WARNING, CRITICAL, UNKNOWN = 1, 2, 3
NPD_UNKNOWN: Final = 2
NPD_MAX_BYTES: Final = 80
SLURM_MAX_BYTES: Final = 160
"""Slurm itself takes more; what ``sinfo -R`` shows is read by people."""
NAGIOS_MAX_BYTES: Final = 400
"""Of the text before the performance data: NRPE's oldest peers take 1,024 bytes in all."""
_WORST_FIRST: Final = ("unhealthy", "unknown", "degraded", "healthy")
_PERFORMANCE: Final = (
    ("temperature", "temperature_c", ""),
    ("utilization", "utilization_gpu_percent", "%"),
    ("memory_used", "memory_used_bytes", "B"),
    ("power", "power_w", ""),
)
"""Label, reading and unit of measurement; degrees and watts have none in the guidelines."""


def overall_verdict(host: Document) -> str:
    """Return the worst verdict of the host and its GPUs; unknown is never healthy."""
    verdicts = {host["verdict"], *(gpu["verdict"] for gpu in host["gpus"])}
    return next((word for word in _WORST_FIRST if word in verdicts), "unknown")


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found."""

    document: Document
    verdict: str
    telling: tuple[Document, ...]
    """The findings that count, worst first."""
    why: str
    by: str
    """``daemon`` or ``look``."""

    @property
    def name(self) -> str:
        """The host's name, fit for a terminal."""
        return clean(str(self.document["name"]))

    @property
    def detail(self) -> str:
        """How many cards, or what is wrong."""
        if self.verdict == "healthy":
            return plural(len(self.document["gpus"]), "GPU")
        more = f" (and {len(self.telling) - 1} more)" if len(self.telling) > 1 else ""
        return (clean(self.why) or "not looked at yet") + more


@dataclass(frozen=True, slots=True)
class CheckFormat:
    """How one asker is answered."""

    line: Callable[[Checked, Terminal], str]
    code: Callable[[str, str], int]
    """Verdict and the verdict from which the check fails → exit code."""
    fails_on: str
    """The default of the latter."""
    code_untold: int | None = None
    """For a check that could not be made; None: the command line's own codes (2 usage, 3 no daemon)."""
    untold: Callable[[str], str] = str


def _line_plain(checked: Checked, terminal: Terminal) -> str:
    words = f"{checked.name}: {terminal.paint(checked.verdict, TONE_OF[checked.verdict])}"
    return f"{words}, {checked.detail}{_by(checked)}"


def _line_json(checked: Checked, _terminal: Terminal) -> str:
    document = {
        "host": checked.document["name"],
        "verdict": checked.verdict,
        "reason": checked.why if checked.telling else "",
        "by": checked.by,
        "gpus": [
            {"uuid": gpu["uuid"], "index": gpu["index"], "verdict": gpu["verdict"]}
            for gpu in checked.document["gpus"]
        ],
        "findings": list(checked.telling),
        "notes": checked.document.get("notes", []),
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _line_slurm(checked: Checked, _terminal: Terminal) -> str:
    return cut(f"gpumesh: {checked.verdict}, {_unquoted(checked.detail)}{_by(checked)}", SLURM_MAX_BYTES)


def _line_npd(checked: Checked, _terminal: Terminal) -> str:
    return cut(checked.detail if checked.verdict != "healthy" else f"{checked.detail} healthy", NPD_MAX_BYTES)


def _line_nagios(checked: Checked, _terminal: Terminal) -> str:
    words = f"GPU {_NAGIOS[checked.verdict][0]} - {checked.name}: {checked.detail}{_by(checked)}"
    return f"{cut(_unbarred(words), NAGIOS_MAX_BYTES)} | {' '.join(_performance(checked.document))}"


def _performance(document: Document) -> list[str]:
    gpus = document["gpus"]
    data = [f"gpus={len(gpus)};;;0", f"healthy={sum(gpu['verdict'] == 'healthy' for gpu in gpus)};;;0"]
    for gpu in gpus:
        reading = gpu.get("reading") or {}
        data += [
            f"gpu{gpu['index']}_{label}={round(reading[key], 1)}{unit}"
            for label, key, unit in _PERFORMANCE
            if reading.get(key) is not None and gpu["index"] is not None
        ]
    return data


_NAGIOS: Final = {
    "healthy": ("OK", OK),
    "degraded": ("WARNING", WARNING),
    "unhealthy": ("CRITICAL", CRITICAL),
    "unknown": ("UNKNOWN", UNKNOWN),
}


def _code_nagios(verdict: str, _fails_on: str) -> int:
    return _NAGIOS[verdict][1]


def _code(verdict: str, fails_on: str) -> int:
    is_fine = verdict == "healthy" or (verdict == "degraded" and fails_on == "unhealthy")
    return OK if is_fine else FAILED


def _code_npd(verdict: str, fails_on: str) -> int:
    return NPD_UNKNOWN if verdict == "unknown" else _code(verdict, fails_on)


def _by(checked: Checked) -> str:
    return " (one look, no daemon)" if checked.by == "look" else ""


def _unbarred(text: str) -> str:
    return text.replace("|", "/")


def _unquoted(text: str) -> str:
    return text.replace('"', "'").replace("\\", "/")


def cut(text: str, limit: int) -> str:
    """Return one line of at most ``limit`` bytes of UTF-8, no character cut in half."""
    line = clean(" ".join(text.split()))
    data = line.encode(errors="replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode(errors="ignore").rstrip() + "..."


FORMATS: Final[Mapping[str, CheckFormat]] = {
    "plain": CheckFormat(_line_plain, _code, "degraded"),
    "json": CheckFormat(_line_json, _code, "degraded"),
    "slurm": CheckFormat(_line_slurm, _code, "unhealthy"),
    "nagios": CheckFormat(
        _line_nagios,
        _code_nagios,
        "degraded",
        UNKNOWN,
        lambda error: cut(_unbarred(f"GPU UNKNOWN - {error}"), NAGIOS_MAX_BYTES),
    ),
    "npd": CheckFormat(
        _line_npd, _code_npd, "unhealthy", NPD_UNKNOWN, lambda error: cut(error, NPD_MAX_BYTES)
    ),
}
