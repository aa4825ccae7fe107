"""How one key is read: its parser, bounds, default and documentation, as dataclass field metadata.

A setting is declared once, in ``schema.py``; the loader, the error messages and the example file that
operators read are all made from that declaration.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)\s*")
_ENDPOINT: Final = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]\s]*)):(?P<port>\d{1,5})")
MAX_TEXT: Final = 255
MAX_ITEMS: Final = 64
MAX_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Setting:
    """What the loader, the error messages and the example know of one key."""

    key: str
    """Its name in the file."""
    read: Callable[[Any], Any]
    """Turns the TOML value into the field's value; raises ValueError saying what would be right."""
    shown: str
    """The default, as TOML."""
    doc: str
    """Unit, bounds and trade-off, for the operator."""


def setting(key: str, read: Callable[[Any], Any], default: Any, shown: str, doc: str) -> Any:
    """Declare a key as a dataclass field."""
    return field(default=default, metadata={"setting": Setting(key, read, shown, doc)})


def text(key: str, default: str, doc: str, *, pattern: str = "", hint: str = "") -> Any:
    """Declare a string of at most 255 characters, optionally of a form (``hint`` describes it)."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or len(value) > MAX_TEXT or "\0" in value or "\n" in value:
            raise ValueError(f"must be one line of text, at most {MAX_TEXT} characters")
        if pattern and not re.fullmatch(pattern, value):
            raise ValueError(f"must be {hint}")
        return value

    return setting(key, read, default, f'"{default}"', doc)


def choice(key: str, default: str, options: Sequence[str], doc: str) -> Any:
    """Declare one word out of a few."""

    def read(value: Any) -> str:
        if value not in options:
            raise ValueError("must be one of " + ", ".join(f'"{option}"' for option in options))
        return str(value)

    return setting(key, read, default, f'"{default}"', doc)


def duration(key: str, default: str, doc: str, *, low: str, high: str) -> Any:
    """Declare a length of time such as ``"5s"``, ``"500ms"``, ``"15m"``; held in seconds."""
    low_s, high_s = parse_duration(low), parse_duration(high)

    def read(value: Any) -> float:
        if not isinstance(value, str):
            raise ValueError(f'must be text with a unit, such as "{default}"')  # noqa: TRY004
        seconds = parse_duration(value)
        if not low_s <= seconds <= high_s:
            raise ValueError(f'must be from "{low}" to "{high}"')
        return seconds

    return setting(key, read, parse_duration(default), f'"{default}"', doc)


def duration_or_auto(key: str, doc: str, *, low: str, high: str) -> Any:
    """Declare a length of time, or "auto" where it follows from others; held in seconds, None for auto."""
    given = duration(key, low, doc, low=low, high=high).metadata["setting"]

    def read(value: Any) -> float | None:
        try:
            return None if value == "auto" else float(given.read(value))
        except ValueError as error:
            raise ValueError(f'{error}, or "auto"') from None

    return setting(key, read, None, '"auto"', doc)


def parse_duration(value: str) -> float:
    """Return the seconds that ``"1.5s"``, ``"500ms"``, ``"15m"`` or ``"2h"`` stand for."""
    match = _DURATION.fullmatch(value)
    if match is None:
        raise ValueError('must be a number and a unit (ms, s, m, h), such as "5s"')
    return float(match[1]) * _UNITS[match[2]]


def integer(key: str, default: int, doc: str, *, low: int, high: int) -> Any:
    """Declare a whole number within bounds."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return value

    return setting(key, read, default, str(default), doc)


def boolean(key: str, doc: str, *, default: bool) -> Any:
    """Declare true or false."""

    def read(value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError("must be true or false")  # noqa: TRY004
        return value

    return setting(key, read, default, str(default).lower(), doc)


def texts(key: str, doc: str, *, check: Callable[[str], object] | None = None) -> Any:
    """Declare a list of at most 64 strings, each of which ``check`` may refuse by ValueError."""

    def read(value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or len(value) > MAX_ITEMS:
            raise ValueError(f"must be a list of at most {MAX_ITEMS} strings")
        for item in value:
            if not isinstance(item, str) or not 0 < len(item) <= MAX_TEXT:
                raise ValueError(f"holds {item!r}; each must be text of 1 to {MAX_TEXT} characters")
            if check is not None:
                check(item)
        return tuple(value)

    return setting(key, read, (), "[]", doc)


def labels(key: str, doc: str) -> Any:
    """Declare a table of at most 64 short strings, held as sorted pairs."""

    def read(value: Any) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, dict) or len(value) > MAX_ITEMS:
            raise ValueError(f'must be a table of at most {MAX_ITEMS} strings, such as {{ room = "2" }}')
        for name, content in value.items():
            if not isinstance(content, str) or len(content) > MAX_TEXT or not 0 < len(name) <= MAX_TEXT:
                raise ValueError(f"holds {name} = {content!r}; names and values must be short strings")
        return tuple(sorted(value.items()))

    return setting(key, read, (), "{}", doc)


def endpoint(key: str, default: str, doc: str, *, is_own: bool = False) -> Any:
    """Declare ``"address:port"``, ``"[v6]:port"`` or ``""``; held as text for :func:`parse_endpoint`.

    ``is_own``: it is told to peers as where this host is, so a name, or an address that stands for several
    hosts, does not do.
    """

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError('must be text such as "127.0.0.1:9477"')  # noqa: TRY004
        if value:
            host, _ = parse_endpoint(value)
            if is_own:
                _check_own(host)
        return value

    return setting(key, read, default, f'"{default}"', doc)


def _check_own(host: str) -> None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise ValueError('must hold an address and no name, such as "203.0.113.7:7977"') from None
    if address.is_unspecified or address.is_multicast:
        raise ValueError(f"{host} is no single host's address; leave it empty to have it found")


def parse_endpoint(value: str) -> tuple[str, int]:
    """Split ``host:port`` or ``[v6]:port``; port 0 asks the kernel for one."""
    match = _ENDPOINT.fullmatch(value)
    if match is None or int(match["port"]) > MAX_PORT:
        raise ValueError('must be "address:port" or "[v6 address]:port", such as "[::]:7977"')
    return match["v6"] or match["host"], int(match["port"])
