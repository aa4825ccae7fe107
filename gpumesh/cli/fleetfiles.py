"""The files that make a host a member of a fleet: configuration and key, written in one step each."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Final

from gpumesh.cli import edit, token
from gpumesh.config import Config, LeaseConfig
from gpumesh.config.files import read_regular
from gpumesh.config.keyring import Keyring, new_key
from gpumesh.config.load import MAX_BYTES, settings_of
from gpumesh.errors import ConfigError, FleetKeyError

_GROUP: Final = "gpumesh"
_MAX_OLD: Final = 20
_MAX_KEY_BYTES: Final = 64 << 10
_HEADER: Final = "# gpumesh configuration; every key is explained in gpumesh.toml(5).\n"


def read_ring(path: Path) -> Keyring:
    """Return the keys in a key file.

    Errors: :class:`FleetKeyError` if it is missing, unreadable or holds something else.
    """
    try:
        data, _ = read_regular(path, _MAX_KEY_BYTES)
        text = data.decode("ascii")
    except FileNotFoundError as error:
        raise FleetKeyError(
            f"{path}: no fleet key; `sudo gpumesh init` makes one, `sudo gpumesh join` takes one"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise FleetKeyError(f"{path}: cannot be read: {_in_words(error)}") from error
    try:
        return Keyring.parse(text)
    except FleetKeyError as error:
        raise FleetKeyError(f"{path}: {error}") from error


def read_keys(path: Path) -> tuple[str, ...]:
    """Return the keys in a key file as text, first the one used to send. Errors: :class:`FleetKeyError`."""
    return tuple(key.text for key in read_ring(path).keys)


def write_ring(path: Path, ring: Keyring) -> None:
    """Replace a key file in one step. Errors: :class:`ConfigError`."""
    _write_private(path, ring.text())


def make_fleet(path: Path, changes: dict[tuple[str, str], edit.Value]) -> tuple[Config, bool]:
    """Write the configuration (keeping what stands there) and a key if there is none.

    Returns the configuration and whether a key was made; an existing key is never replaced. Errors:
    :class:`FleetKeyError` if this host is a member already and another label is asked for.
    """
    now = _planned(path, {})[1].gossip
    config = _planned(path, changes)[1]
    key_path = Path(config.gossip.key_file)
    if key_path.exists():
        read_keys(key_path)
        if config.gossip.fleet != now.fleet:
            raise FleetKeyError(
                f"{key_path}: this host is a member of fleet {now.fleet}, and under the label "
                f"{config.gossip.fleet} its peers would not hear it any more; to make a new fleet, move the "
                "key file away first"
            )
        return _write_config(path, changes), False
    _write_config(path, changes)
    _write_private(key_path, new_key() + "\n")
    return config, True


def join_fleet(path: Path, joining: token.Token, *, force: bool) -> Config:
    """Write the token's fleet, seeds and keys into configuration and key file.

    Errors: :class:`FleetKeyError` if this host is already a member of another fleet and not ``force``.
    """
    changes: dict[tuple[str, str], edit.Value] = {
        ("gossip", "fleet"): joining.fleet,
        ("gossip", "seeds"): list(joining.seeds),
        ("gossip", "profile"): joining.profile,
    }
    changes.update({("lease", key): value for key, value in joining.lease.items()})
    config = _planned(path, changes)[1]
    key_path = Path(config.gossip.key_file)
    if key_path.exists() and not force:
        held = read_keys(key_path)
        if not set(held) & set(joining.keys):
            raise FleetKeyError(
                f"{key_path}: this host already holds another fleet's key; `gpumesh join --force TOKEN` "
                "replaces it (the old one is kept beside it as .old)"
            )
    if key_path.exists() and read_or_none(key_path) != joining.keys:
        _keep_aside(key_path)
    _write_private(key_path, "\n".join(joining.keys) + "\n")
    return _write_config(path, changes)


def is_member(path: Path, joining: token.Token) -> bool:
    """Tell whether this host is a member of the token's fleet already."""
    gossip = _planned(path, {})[1].gossip
    held = read_or_none(Path(gossip.key_file)) or ()
    return gossip.fleet == joining.fleet and bool(set(held) & set(joining.keys))


def set_name(path: Path, name: str) -> Config:
    """Set this host's name for people."""
    return _write_config(path, {("host", "name"): name})


def read_or_none(path: Path) -> tuple[str, ...] | None:
    """Return the keys in the file, or None where it holds none."""
    try:
        return read_keys(path)
    except FleetKeyError:
        return None


def make_token(config: Config, seeds: list[str]) -> token.Token:
    """Return the token for this host's fleet, to join by ``seeds``."""
    keys = read_keys(Path(config.gossip.key_file))
    return token.Token(config.gossip.fleet, keys, tuple(seeds), config.gossip.profile, _lease_changes(config))


def _keep_aside(key_path: Path) -> None:
    """Copy the key file beside itself, over no earlier copy: it may be the last trace of a fleet's key."""
    suffixes = (".old", *(f".old{number}" for number in range(2, _MAX_OLD + 1)))
    place = next((at for at in map(key_path.with_suffix, suffixes) if not at.exists()), None)
    if place is None:
        raise FleetKeyError(
            f"{key_path}: {_MAX_OLD} old keys lie beside it already; remove those that are not needed"
        )
    shutil.copy2(key_path, place)


def _lease_changes(config: Config) -> dict[str, str | int]:
    """Return the keys of [lease] that differ from the defaults, as TOML values."""
    names = {field_name: key for key, (field_name, _) in settings_of(LeaseConfig).items()}
    changed: dict[str, str | int] = {}
    for item in fields(LeaseConfig):
        value = getattr(config.lease, item.name)
        if value != item.default:
            changed[names[item.name]] = value if isinstance(value, int) else f"{value * 1000:g}ms"
    return changed


def _planned(path: Path, changes: dict[tuple[str, str], edit.Value]) -> tuple[str, Config]:
    try:
        data, _ = read_regular(path, MAX_BYTES)
        content = data.decode()
    except FileNotFoundError:
        content = _HEADER
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {_in_words(error)}") from error
    return edit.set_keys(content, changes, str(path))


def _write_config(path: Path, changes: dict[tuple[str, str], edit.Value]) -> Config:
    content, config = _planned(path, changes)
    _replace_file(path, content, 0o640)
    return config


def _write_private(path: Path, content: str) -> None:
    _replace_file(path, content, 0o640 if _group_id() is not None else 0o600)


def _replace_file(path: Path, content: str, mode: int) -> None:
    """Replace the file in one step, owner root and group gpumesh where that group exists."""
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w") as file:
            group = _group_id()
            if group is not None:
                os.chown(file.fileno(), -1, group)
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {_in_words(error)}") from error


def _in_words(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8 text"
    words = error.strerror or str(error)
    return f"{words}; run this with sudo" if isinstance(error, PermissionError) else words


def _group_id() -> int | None:
    import grp  # noqa: PLC0415 - only where files are written

    if os.geteuid() != 0:
        return None
    with contextlib.suppress(KeyError):
        return grp.getgrnam(_GROUP).gr_gid
    return None
