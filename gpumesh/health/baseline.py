"""The access baseline: which driver, CUDA, container toolkit and kernel a host of this fleet should have.

A TOML file names, for each, the accepted versions. ``accept`` means a branch from a version on: NVIDIA
ships fixes within a branch, so 535.183.01 meets 535.154.05, while 545.29.06 is another branch and does not.
``minimum`` means that version and everything later. A branch newer than all that are listed is not met
unless ``allow_newer`` says so; in mode ``warn`` that is told and changes nothing. ``[host] require`` names
conditions that are no version (:mod:`gpumesh.health.conditions`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from gpumesh import versions
from gpumesh.config import BaselineConfig
from gpumesh.config.files import read_regular
from gpumesh.errors import ConfigError
from gpumesh.health.conditions import CONDITIONS, Circumstances, judge
from gpumesh.model import Baseline, BaselineItem

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BUILT_IN: Final = "built-in"
SHIPPED: Final[Mapping[str, tuple[str, str]]] = {
    "": (BUILT_IN, "baseline.toml"),
    "modern": ("modern", "baseline-modern.toml"),
}
"""What ``baseline.file`` may say instead of a path → source and file beside this one."""
MAX_BYTES: Final = 64 * 1024
MAX_ACCEPTED: Final = 32
NOT_INSTALLED: Final = "not installed"
BRANCH_PARTS: Final[Mapping[str, int]] = {"driver": 1, "cuda": 2, "container-toolkit": 1, "kernel": 2}
"""The items in the order in which they are shown → how many leading numbers make a branch."""
HOST_SECTION: Final = "host"
_KEYS: Final = ("accept", "minimum", "allow_newer")
_HOW: Final[Mapping[str, str]] = {
    "driver": "install NVIDIA driver {}",
    "cuda": "install a driver that supports CUDA {}",
    "container-toolkit": "install nvidia-container-toolkit {}",
    "kernel": "boot a kernel {}",
}


@dataclass(frozen=True, slots=True)
class ItemRule:
    """What one item is held to: either ``accept`` or ``minimum`` is given."""

    name: str
    accept: tuple[str, ...] = ()
    minimum: str = ""
    is_newer_allowed: bool = False

    @property
    def expected(self) -> str:
        """What is expected, in words."""
        if self.minimum:
            return f"{self.minimum} or later"
        listed = " or ".join(f"{version}+" for version in self.accept)
        return f"{listed} (same branch)" + (", or a newer branch" if self.is_newer_allowed else "")

    def is_met_by(self, found: str) -> bool | None:
        """Say whether ``found`` fits; None if it is no version."""
        version = versions.parse(found)
        if version is None:
            return None
        num_parts = BRANCH_PARTS[self.name]
        if self.minimum:
            return versions.compare(version, _known(self.minimum)) >= 0
        accepted = [_known(text) for text in self.accept]
        if self.is_newer_allowed:
            newest = max(accepted)
            if versions.compare(version[:num_parts], newest[:num_parts]) > 0:
                return True
        return any(
            versions.is_same_branch(version, least, num_parts) and versions.compare(version, least) >= 0
            for least in accepted
        )


@dataclass(frozen=True, slots=True)
class BaselineRules:
    """A whole baseline."""

    source: str
    """The file it was read from, or ``built-in`` or ``modern``."""
    items: tuple[ItemRule, ...]
    conditions: tuple[str, ...] = ()
    """Names of :data:`gpumesh.health.conditions.CONDITIONS` that must be met where they apply."""

    def hold(self, found: Mapping[str, str | None], mode: str, now: Circumstances | None = None) -> Baseline:
        """Hold what was found (by item; None: could not be read) and the circumstances to the baseline."""
        items = [_outcome(rule, found.get(rule.name)) for rule in self.items]
        if now is not None:
            judged = (judge(name, now) for name in self.conditions)
            items.extend(item for item in judged if item is not None)
        return Baseline(mode=mode, source=self.source, items=tuple(items))


def load(config: BaselineConfig) -> BaselineRules:
    """Return the baseline that the configuration names, or the built-in one.

    Errors: ConfigError naming the file and the key.
    """
    if config.file in SHIPPED:
        return shipped(config.file)
    try:
        data, _ = read_regular(Path(config.file), MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError(f"{config.file}: larger than {MAX_BYTES} bytes; this is not a baseline")
        return parse(data.decode(), config.file)
    except OSError as error:
        raise ConfigError(
            f"{config.file}: cannot be read: {error.strerror}; baseline.file must name a TOML file, or be "
            f"empty for the built-in baseline"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{config.file}: is not UTF-8 text") from error


def shipped(name: str) -> BaselineRules:
    """Return one of :data:`SHIPPED`, by what ``baseline.file`` says."""
    source, file = SHIPPED[name]
    content = resources.files("gpumesh.health").joinpath(file).read_text(encoding="utf-8")
    return parse(content, source)


def parse(content: str, source: str) -> BaselineRules:
    """Return the baseline written in ``content``; ``source`` names it in errors (ConfigError)."""
    try:
        document = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: is not TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{source}: is nested too deeply; this is not a baseline") from error
    for name in document:
        if name not in BRANCH_PARTS and name != HOST_SECTION:
            known = ", ".join((*BRANCH_PARTS, HOST_SECTION))
            raise ConfigError(f"{source}: [{name}]: unknown item; known: {known}")
    rules = tuple(_item(name, document[name], source) for name in BRANCH_PARTS if name in document)
    return BaselineRules(source, rules, _conditions(document.get(HOST_SECTION, {}), source))


def _conditions(table: Any, source: str) -> tuple[str, ...]:
    if not isinstance(table, dict) or set(table) - {"require"}:
        raise ConfigError(f"{source}: {HOST_SECTION}: must be a section with the one key require")
    wanted = table.get("require", [])
    if not isinstance(wanted, list) or not all(name in CONDITIONS for name in wanted):
        raise ConfigError(f"{source}: {HOST_SECTION}.require: must be a list of {', '.join(CONDITIONS)}")
    return tuple(name for name in CONDITIONS if name in wanted)


def _item(name: str, table: Any, source: str) -> ItemRule:
    if not isinstance(table, dict):
        raise ConfigError(f"{source}: {name}: must be a section, written [{name}]")
    for key in table:
        if key not in _KEYS:
            raise ConfigError(f"{source}: {name}.{key}: unknown key; known: {', '.join(_KEYS)}")
    accept, minimum = table.get("accept", []), table.get("minimum", "")
    is_newer_allowed = table.get("allow_newer", False)
    if not isinstance(accept, list) or len(accept) > MAX_ACCEPTED:
        raise ConfigError(f"{source}: {name}.accept: must be a list of at most {MAX_ACCEPTED} versions")
    for version in accept:
        _refuse_odd(version, f"{source}: {name}.accept")
    if "minimum" in table:
        _refuse_odd(minimum, f"{source}: {name}.minimum")
    if bool(accept) == bool(minimum):
        raise ConfigError(f"{source}: {name}: needs either accept = [versions] or minimum = version")
    if not isinstance(is_newer_allowed, bool) or (is_newer_allowed and minimum):
        raise ConfigError(f"{source}: {name}.allow_newer: must be true or false, and stands with accept only")
    return ItemRule(name, tuple(accept), minimum, is_newer_allowed)


def _refuse_odd(version: Any, where: str) -> None:
    if not isinstance(version, str) or versions.parse(version) is None:
        raise ConfigError(f'{where} = {version!r}: must be a version in quotes, such as "535.154.05"')


def _outcome(rule: ItemRule, found: str | None) -> BaselineItem:
    is_met = None if found is None else False if found == NOT_INSTALLED else rule.is_met_by(found)
    advice = "" if is_met else _HOW[rule.name].format(rule.expected)
    return BaselineItem(rule.name, rule.expected, found, is_met, advice)


def _known(text: str) -> versions.Version:
    """Return the numbers of a version that parse() has already accepted."""
    version = versions.parse(text)
    assert version is not None
    return version
