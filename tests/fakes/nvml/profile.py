"""Profiles of real cards: what each says of itself, and what it reads idle and at work."""

from __future__ import annotations

import configparser
import dataclasses
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "profiles"


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """One card and the driver it was seen under, in the words of a state file."""

    driver: Mapping[str, str]
    card: Mapping[str, str]
    idle: Mapping[str, str]
    loaded: Mapping[str, str]

    def readings(self, load: str) -> Mapping[str, str]:
        """The readings under ``idle`` or ``loaded``.

        :raises ValueError: another load
        """
        if load not in {"idle", "loaded"}:
            raise ValueError(f"load {load!r}: it is idle or loaded")
        return self.idle if load == "idle" else self.loaded


def names() -> list[str]:
    """What :func:`read` knows."""
    return sorted(path.stem for path in FOLDER.glob("*.state"))


def read(name: str) -> Profile:
    """The profile of that name.

    :raises ValueError: there is none
    """
    path = FOLDER / f"{name}.state"
    if not path.exists():
        raise ValueError(f"no profile {name!r}: take one of {', '.join(names())}")
    parser = configparser.RawConfigParser(delimiters=("=",))
    parser.read(path)
    return Profile(*(dict(parser[section]) for section in ("driver", "card", "idle", "loaded")))
