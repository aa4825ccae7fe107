"""Which parts of a changed configuration a living daemon takes up, and which wait for a restart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from gpumesh.config import Config

NEEDS_RESTART: Final = (
    "host.name",
    "host.state_dir",
    "gossip.fleet",
    "gossip.bind",
    "gossip.advertise",
    "gossip.profile",
    "gossip.key_file",
    "lease",
    "gpu",
    "health",
    "http",
    "control",
)
"""Sections and keys by which sockets, processes and engines were made."""


def take_up(running: Config, wanted: Config) -> tuple[Config, list[str]]:
    """Return the configuration to run by from now on, and the names of what needs a restart to change.

    What needs a restart keeps its running value, so that it is named again at each reload until then.
    """
    effective, waiting = wanted, []
    for name in NEEDS_RESTART:
        section, _, key = name.partition(".")
        now: Any = getattr(running, section)
        then: Any = getattr(wanted, section)
        if key:
            if getattr(now, key) != getattr(then, key):
                waiting.append(name)
                kept = replace(getattr(effective, section), **{key: getattr(now, key)})
                effective = replace(effective, **{section: kept})
        elif now != then:
            waiting.append(name)
            effective = replace(effective, **{section: now})
    return effective, waiting
