"""Reading ``gpumesh.toml``: unknown keys, wrong types and contradictions are refused by name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields, replace
from pathlib import Path
from typing import Any, Final

from gpumesh.config.fields import Setting
from gpumesh.config.files import read_regular
from gpumesh.config.schema import Config
from gpumesh.errors import ConfigError, did_you_mean

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_PATH: Final = Path("/etc/gpumesh/gpumesh.toml")
MAX_BYTES: Final = 1 << 20


def load(path: Path | None = None) -> Config:
    """Return the configuration in ``path``; without one, that of the default path, or the defaults.

    Errors: :class:`ConfigError` if a named file is missing, unreadable, not TOML, or holds a wrong key.
    """
    source = path or DEFAULT_PATH
    try:
        data, _ = read_regular(source, MAX_BYTES + 1)
    except FileNotFoundError as error:
        if path is None:
            return Config()
        raise ConfigError(f"{source}: no such file; `gpumesh init` writes one") from error
    except OSError as error:
        raise ConfigError(f"{source}: cannot be read: {error.strerror}; check its owner and mode") from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{source}: larger than {MAX_BYTES} bytes; this is not a gpumesh configuration")
    try:
        return parse(data.decode(), str(source))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: is not UTF-8 text") from error


def parse(content: str, source: str = "gpumesh.toml") -> Config:
    """Return the configuration written in ``content``; ``source`` names it in errors."""
    try:
        document = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: is not TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{source}: is nested too deeply; this is not a gpumesh configuration") from error
    sections = {item.name: item for item in fields(Config) if item.name != "source"}
    _refuse_unknown(document, sections, source, "section")
    built: dict[str, Any] = {}
    for name, item in sections.items():
        table = document.get(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{source}: {name}: must be a section, written [{name}]")
        built[name] = _section(item, table, source)
    config = replace(Config(**built), source=source)
    _check_relations(config)
    return config


def settings_of(section: Any) -> dict[str, tuple[str, Setting]]:
    """Return the keys of a section (class or instance): key → (field name, setting)."""
    return {item.metadata["setting"].key: (item.name, item.metadata["setting"]) for item in fields(section)}


def _section(item: Field[Any], table: Mapping[str, Any], source: str) -> Any:
    factory: Any = item.default_factory
    known = settings_of(factory)
    _refuse_unknown(table, known, source, f"key in [{item.name}]")
    values: dict[str, Any] = {}
    for key, value in table.items():
        field_name, setting = known[key]
        try:
            values[field_name] = setting.read(value)
        except ValueError as error:
            raise ConfigError(f"{source}: {item.name}.{key} = {value!r}: {error}") from error
    return factory(**values)


def _refuse_unknown(given: Iterable[str], known: Mapping[str, object], source: str, kind: str) -> None:
    for key in given:
        if key not in known:
            hint = did_you_mean(key, known, "known: " + ", ".join(known))
            raise ConfigError(f"{source}: {key}: unknown {kind}; {hint}")


def _check_relations(config: Config) -> None:
    source, lease, gpu = config.source, config.lease, config.gpu
    least_s = lease.heartbeat_s * lease.failures
    if lease.ttl_s < least_s:
        raise ConfigError(
            f"{source}: lease.ttl: must be at least lease.heartbeat x lease.failures ({least_s:g}s), or a "
            "healthy host loses its lease between beats"
        )
    if config.health.hot_c <= config.health.warm_c:
        raise ConfigError(f"{source}: health.hot: must be above health.warm ({config.health.warm_c})")
    if gpu.interval_min_s is not None and gpu.interval_min_s > gpu.interval_s:
        raise ConfigError(f"{source}: gpu.interval_min: must be at most gpu.interval ({gpu.interval_s:g}s)")
    longest_s = max(gpu.interval_s, lease.ttl_s)
    if gpu.interval_max_s is not None and not gpu.interval_s <= gpu.interval_max_s <= longest_s:
        raise ConfigError(
            f"{source}: gpu.interval_max: must be from gpu.interval ({gpu.interval_s:g}s) to lease.ttl "
            f"({longest_s:g}s), or peers would hold what is older than a lease"
        )
    if gpu.backend == "simulated" and not gpu.simulated:
        raise ConfigError(f'{source}: gpu.simulated: backend = "simulated" needs at least one profile')
    if gpu.backend == "nvml" and gpu.simulated:
        raise ConfigError(f'{source}: gpu.simulated: only with gpu.backend = "simulated"')
    if config.sharing.mode == "schedule" and not config.sharing.hours:
        raise ConfigError(f'{source}: sharing.hours: mode = "schedule" needs hours, such as "22:00-07:00"')
    if config.jobs.accept:
        raise ConfigError(
            f"{source}: jobs.accept: this version says where work should run but does not launch it; "
            "set it to false"
        )
