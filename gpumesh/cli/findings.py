"""Findings under a table or a host: what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gpumesh.cli.formats import Document, model, wrap
from gpumesh.cli.terminal import TONE_OF, Terminal, Tone, clean

_MARKS: Final = {"critical": "✗", "warning": "!", "info": "·"}
_ORDER: Final = ("critical", "warning", "info")


def findings_of(host: Document) -> list[Document]:
    """Return the findings of a host and its GPUs, worst first, silenced ones last."""
    found = [*host["findings"], *(item for gpu in host["gpus"] for item in gpu["findings"])]
    return sorted(found, key=_importance)


def counts(finding: Document) -> bool:
    """Say whether a finding is more than told: no information only, and not silenced by an operator."""
    return finding["severity"] != "info" and not finding.get("silenced_until")


def _importance(finding: Document) -> tuple[bool, int]:
    severity = finding["severity"]
    return bool(finding.get("silenced_until")), _ORDER.index(severity) if severity in _ORDER else 0


def subject_of(finding: Document, gpus: Iterable[Document]) -> str:
    """Return the subject for people: ``GPU 1 (RTX 4080 SUPER)`` where the card is known."""
    kind, _, uuid = str(finding["subject"]).partition("/")
    if kind != "gpu":
        return clean(str(finding["subject"]))
    for gpu in gpus:
        if gpu["uuid"] == uuid:
            index = "GPU" if gpu["index"] is None else f"GPU {gpu['index']}"
            return f"{index} ({model(gpu['model'])})"
    return f"GPU {clean(uuid)}"


def finding_lines(
    terminal: Terminal, findings: Sequence[Document], gpus: Sequence[Document], indent: str
) -> list[str]:
    """Return each finding with its mark, subject and reason, and under it what to do."""
    lines: list[str] = []
    inner = indent + "  "
    for finding in findings:
        silenced_until = finding.get("silenced_until")
        tone = Tone.SOFT if silenced_until else TONE_OF.get(finding["severity"], Tone.PLAIN)
        mark = terminal.paint("z" if silenced_until else _MARKS.get(finding["severity"], "!"), tone)
        text = f"{subject_of(finding, gpus)}: {finding['reason']}"
        if silenced_until:
            text += f" (silenced until {silenced_until[:16].replace('T', ' ')} UTC)"
        first, *rest = wrap(text, terminal.width, inner)
        lines.append(f"{indent}{mark} {first[len(inner) :]}")
        lines.extend(rest)
        todo = to_do(finding)
        if todo:
            lines.extend(
                terminal.paint(line, Tone.STRONG) for line in wrap(f"→ {todo}", terminal.width, inner)
            )
    return lines


def to_do(finding: Document) -> str:
    """Return the advice, or the suggested action; empty if nothing is to be done."""
    return str(finding["advice"] or ("" if finding["action"] == "none" else finding["action"]))
