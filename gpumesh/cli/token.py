"""The join token: one string with all that the next host needs to become a member."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from gpumesh.config.fields import parse_endpoint
from gpumesh.config.keyring import parse_key
from gpumesh.errors import FleetKeyError

PREFIX: Final = "gpumesh1."
MAX_CHARACTERS: Final = 8_192
MAX_SEEDS: Final = 5


@dataclass(frozen=True, slots=True)
class Token:
    """What a token says. It holds the fleet's key: whoever has it can join."""

    fleet: str
    keys: tuple[str, ...]
    """Base64, 32 bytes each; the first is used to send."""
    seeds: tuple[str, ...]
    """``address:port`` of hosts to join by."""
    profile: str = "lan"
    lease: dict[str, str | int] = field(default_factory=dict)
    """Keys of ``[lease]`` that differ from the defaults: they must agree in the whole fleet."""


def encode(token: Token) -> str:
    """Return the token as one word, safe in shells and URLs, with a checksum against torn copies."""
    data = json.dumps(asdict(token), separators=(",", ":"), sort_keys=True).encode()
    return PREFIX + base64.urlsafe_b64encode(zlib.crc32(data).to_bytes(4, "big") + data).decode().rstrip("=")


def decode(text: str) -> Token:
    """Return what the token says. Errors: :class:`FleetKeyError` naming what is wrong with it."""
    word = text.strip()
    if not word.startswith(PREFIX):
        raise FleetKeyError(
            f"this is no join token: it must begin with {PREFIX}; `sudo gpumesh token` prints one"
        )
    if len(word) > MAX_CHARACTERS:
        raise FleetKeyError(f"this is no join token: longer than {MAX_CHARACTERS} characters")
    body = word[len(PREFIX) :]
    try:
        raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    except (binascii.Error, ValueError) as error:
        raise FleetKeyError("the token is damaged: copy the whole of it, without line breaks") from error
    if len(raw) < 5 or zlib.crc32(raw[4:]).to_bytes(4, "big") != raw[:4]:  # noqa: PLR2004 - four of checksum
        raise FleetKeyError("the token is torn: its checksum does not fit; copy the whole of it")
    try:
        return _checked(json.loads(raw[4:]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FleetKeyError(f"the token was made by another version of gpumesh: {error}") from error


def _checked(document: Any) -> Token:
    keys = tuple(parse_key(key).text for key in document["keys"])
    seeds = tuple(str(seed) for seed in document["seeds"])[:MAX_SEEDS]
    for seed in seeds:
        parse_endpoint(seed)
    lease = {str(key): value for key, value in document["lease"].items() if isinstance(value, str | int)}
    if not keys:
        raise ValueError("it holds no key")
    return Token(str(document["fleet"]), keys, seeds, str(document["profile"]), lease)
