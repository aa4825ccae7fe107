"""How this host's container runtimes reach the cards: their configuration and the CDI specifications, parsed.

Values and parsing only; ``gpumesh/daemon/containerfiles.py`` reads the files. Sources: NVIDIA Container
Toolkit's installation guide (``nvidia-ctk runtime configure``, ``nvidia-ctk cdi generate``), the CNCF CDI
specification, and the runtimes' own documentation.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GPU_KIND: Final = "nvidia.com/gpu"
MAX_DEVICES: Final = 512
_MAX_DEPTH: Final = 12
_ITEM: Final = re.compile(r"(?P<indent> *)- +")
_TOP_KEY: Final = re.compile(r"(?P<key>[A-Za-z]\w*):\s*(?P<value>.*?)\s*")
_NAME: Final = re.compile(r"""name:\s*(?P<quote>["']?)(?P<name>[^"'#]*?)(?P=quote)\s*(?:#.*)?""")


@dataclass(frozen=True, slots=True)
class Runtime:
    """One container runtime that is installed."""

    name: str
    """``docker``, ``podman`` or ``containerd``."""
    way: str | None
    """How it gives cards to containers, in words; empty: it does not; None: its files cannot be read."""


@dataclass(frozen=True, slots=True)
class Containers:
    """What is installed, and what CDI knows."""

    runtimes: tuple[Runtime, ...] = ()
    cdi_devices: tuple[str, ...] | None = ()
    """Names of all ``nvidia.com/gpu`` devices, such as ``0``, ``GPU-…`` and ``all``; None: not readable."""


def docker_way(daemon_json: str, *, has_hook: bool, has_cdi: bool) -> str | None:
    """Return how Docker is set up: ``daemon_json`` is ``/etc/docker/daemon.json``, empty if there is none.

    ``has_hook``: ``nvidia-container-runtime-hook`` is installed, by which ``docker run --gpus`` works alone.
    """
    try:
        document = json.loads(daemon_json) if daemon_json.strip() else {}
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    features = document.get("features")
    if "nvidia" in _table(document.get("runtimes")) or document.get("default-runtime") == "nvidia":
        return "nvidia runtime"
    if has_cdi and _table(features).get("cdi") is True:
        return "CDI"
    return "--gpus by its hook" if has_hook else ""


def containerd_way(configs: Iterable[str], *, has_cdi: bool) -> str | None:
    """Return how containerd is set up; ``configs`` are ``config.toml`` and what it imports."""
    for content in configs:
        try:
            document = tomllib.loads(content)
        except (tomllib.TOMLDecodeError, RecursionError):
            return None
        for table in _tables(document):
            runtimes = _table(table.get("runtimes"))
            if "nvidia" in runtimes or table.get("default_runtime_name") == "nvidia":
                return "nvidia runtime"
            if has_cdi and table.get("enable_cdi") is True:
                return "CDI"
    return ""


def podman_way(*, has_hook: bool, has_cdi: bool) -> str:
    """Return how Podman is set up: by CDI, or by the OCI hook that older toolkits installed."""
    if has_cdi:
        return "CDI"
    return "OCI hook" if has_hook else ""


def cdi_devices(content: str) -> tuple[str, ...] | None:
    """Return the device names of one CDI specification, JSON or YAML; none if it is of another kind.

    None if it cannot be understood. Of YAML only what ``nvidia-ctk`` writes is read: block style, in which
    each device has its ``name`` at the depth of the list's items.
    """
    if content.lstrip().startswith("{"):
        try:
            return _from_json(json.loads(content))
        except (ValueError, RecursionError):
            return None
    return _from_yaml(content)


def _from_json(document: Any) -> tuple[str, ...] | None:
    if document.get("kind") != GPU_KIND:
        return ()
    devices = document.get("devices")
    if not isinstance(devices, list):
        return None
    return tuple(str(device["name"]) for device in devices[:MAX_DEVICES] if "name" in _table(device))


def _from_yaml(content: str) -> tuple[str, ...] | None:
    kind, section, depth = "", "", -1
    names: list[str] = []
    for line in content.splitlines():
        top = _TOP_KEY.fullmatch(line)
        if top is not None:
            section, depth = top["key"], -1
            kind = top["value"].strip("\"'") if section == "kind" else kind
        elif section == "devices":
            item = _ITEM.match(line)
            if item is not None and depth < 0:
                depth = len(item["indent"])
            at_item = item is not None and len(item["indent"]) == depth
            text = line[item.end() :] if item is not None and at_item else line[depth + 2 :]
            is_key = at_item or (depth >= 0 and not line[: depth + 2].strip() and not text.startswith(" "))
            name = _NAME.fullmatch(text) if is_key else None
            if name is not None and len(names) < MAX_DEVICES:
                names.append(name["name"])
    if not kind:
        return None
    return tuple(names) if kind == GPU_KIND else ()


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _tables(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield a TOML document's tables at every depth."""
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        yield value
        for inner in value.values():
            yield from _tables(inner, depth + 1)
