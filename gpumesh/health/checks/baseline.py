"""Does the host fit the fleet's access baseline: versions, and conditions that are no version.

Versions are those of driver, CUDA, container toolkit and kernel. Conditions are what ``[host] require`` of
the baseline file names: ``nouveau`` is not loaded, the ``clock`` is synchronised, ``persistence`` mode is on,
``docker``, ``podman`` and ``containerd``, where installed, can give cards to containers, and the ``cdi``
specifications name the cards that are here.

In mode ``warn`` an item that is not met is told and changes nothing: a café fleet with newer drivers goes
on working, and everybody can read that it differs. In mode ``enforce`` the host takes no work until it is
met, and an item that cannot be read is not taken for met.

Thresholds:

- ``unmet``: an item is not met, mode warn. Source: the baseline file (baseline.file), or the built-in one.
- ``unmet-enforced``: an item is not met, mode enforce. Source: the baseline file (baseline.file), or the
  built-in one.
- ``unknown-enforced``: an item cannot be read, mode enforce. Source: the baseline file (baseline.file), or
  the built-in one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import HOST, HostCheck, Look, Rule, SeeHost, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "baseline"
_SOURCE: Final = "the baseline file (baseline.file), or the built-in one"

UNMET = Rule(NAME, "unmet", "an item is not met, mode warn", Severity.INFO, Action.CONFIGURE, _SOURCE)
UNMET_ENFORCED = Rule(
    NAME, "unmet-enforced", "an item is not met, mode enforce", Severity.CRITICAL, Action.CONFIGURE, _SOURCE
)
UNKNOWN_ENFORCED = Rule(
    NAME,
    "unknown-enforced",
    "an item cannot be read, mode enforce",
    Severity.WARNING,
    Action.INSPECT,
    _SOURCE,
)


def see(look: Look) -> Iterator[Symptom]:
    """Turn items that are not met into symptoms."""
    is_enforced = look.baseline.mode == "enforce"
    for item in look.baseline.items:
        # Expected and found stand in the report's baseline already, and every byte travels.
        evidence = {"item": item.name}
        if item.name == "nouveau" and look.probe.driver is None:
            continue  # the driver check says it, as the cause
        if item.is_met is False:
            rule = UNMET_ENFORCED if is_enforced else UNMET
            reason = f"{item.name} is {item.found}; the baseline expects {item.expected}"
            yield Symptom(rule, HOST, reason, evidence, item=item.name, advice=item.advice)
        elif item.is_met is None and is_enforced:
            reason = f"{item.name} could not be read; the baseline expects {item.expected}"
            yield Symptom(UNKNOWN_ENFORCED, HOST, reason, evidence, item=item.name, advice=item.advice)


def _start(_config: Config) -> SeeHost:
    return see


CHECK = HostCheck(NAME, __doc__, (UNMET, UNMET_ENFORCED, UNKNOWN_ENFORCED), _start)
