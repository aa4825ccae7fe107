"""Changing single keys of an operator's ``gpumesh.toml`` without touching the rest, comments included."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from gpumesh.config import Config, parse
from gpumesh.errors import ConfigError

Value = str | int | list[str]

_HEADER: Final = re.compile(r"\s*\[\s*([A-Za-z0-9_-]+)\s*\]\s*(#.*)?")


def set_keys(content: str, changes: Mapping[tuple[str, str], Value], source: str) -> tuple[str, Config]:
    """Return the text with ``(section, key)`` set to each value, and the configuration it then holds.

    A key is replaced where it stands on a line of its own, else added at the head of its section, else the
    section is appended. Errors: :class:`ConfigError` if the result would not say what was asked (a value
    spread over several lines, a dotted key): the text is then the operator's to change.
    """
    parse(content, source)
    lines = content.splitlines()
    for (section, key), value in changes.items():
        lines = _set_key(lines, section, key, f"{key} = {json.dumps(value, ensure_ascii=False)}")
    edited = "\n".join(lines) + "\n"
    try:
        return edited, parse(edited, source)
    except ConfigError as error:
        names = ", ".join(f"{section}.{key}" for section, key in changes)
        raise ConfigError(
            f"{source}: cannot set {names} by itself; edit the file by hand ({error})"
        ) from error


def _set_key(lines: list[str], section: str, key: str, assignment: str) -> list[str]:
    start = _find_section(lines, section)
    if start is None:
        gap = [""] if lines and lines[-1].strip() else []
        return [*lines, *gap, f"[{section}]", assignment]
    for index in range(start + 1, len(lines)):
        if lines[index].lstrip().startswith("["):
            break
        if re.match(rf"\s*{re.escape(key)}\s*=", lines[index]):
            return [*lines[:index], assignment, *lines[index + 1 :]]
    return [*lines[: start + 1], assignment, *lines[start + 1 :]]


def _find_section(lines: list[str], section: str) -> int | None:
    for index, line in enumerate(lines):
        match = _HEADER.fullmatch(line)
        if match is not None and match[1] == section:
            return index
    return None
