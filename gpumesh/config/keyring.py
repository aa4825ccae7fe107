"""Fleet keys: several are accepted, the first one sends, so that a key is changed without losing anybody.

A key is 32 random bytes, written in base64, one a line; ``#`` begins a comment. Its id, the first four
bytes of its SHA-256 in hex, may be shown and logged: it tells people which key a host uses and reveals
nothing of it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Final

from gpumesh.errors import FleetKeyError

KEY_BYTES: Final = 32
KEY_ID_BYTES: Final = 4
MAX_KEYS: Final = 16
"""Keys in one ring; a rotation needs two."""


@dataclass(frozen=True, slots=True)
class FleetKey:
    """One secret of the fleet; it never shows in a repr."""

    secret: bytes = field(repr=False)

    @property
    def key_id(self) -> bytes:
        """Four bytes that name the key without revealing it."""
        return hashlib.sha256(self.secret).digest()[:KEY_ID_BYTES]

    @property
    def text(self) -> str:
        """The key as it stands in a key file."""
        return base64.b64encode(self.secret).decode()


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys accepted; the first one seals what is sent."""

    keys: tuple[FleetKey, ...]

    def __post_init__(self) -> None:
        """Refuse an empty, overfull or self-contradicting ring."""
        if not 1 <= len(self.keys) <= MAX_KEYS:
            raise FleetKeyError(f"a keyring holds 1 to {MAX_KEYS} keys, this one {len(self.keys)}")
        if len({key.key_id for key in self.keys}) != len(self.keys):
            raise FleetKeyError("the keyring names one key twice; remove the second line")

    @classmethod
    def parse(cls, text: str) -> Keyring:
        """Read a key file's text; raises :class:`FleetKeyError` naming the line and what would be right."""
        keys = []
        for number, line in enumerate(text.splitlines(), 1):
            word = line.partition("#")[0].strip()
            if word:
                keys.append(FleetKey(_decode(word, f"line {number} of the key file")))
        if not keys:
            raise FleetKeyError("the key file holds no key; `gpumesh init` makes one")
        return cls(tuple(keys))

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids in hex, the sending key's first."""
        return tuple(key.key_id.hex() for key in self.keys)

    def with_key(self, key: FleetKey) -> Keyring:
        """Return a ring that also accepts the key; unchanged if it does already."""
        return self if key in self.keys else Keyring((*self.keys, key))

    def sending_with(self, key_id: str) -> Keyring:
        """Return a ring that sends with the key of this id; :class:`FleetKeyError` if it holds none."""
        key = self.find(key_id)
        return Keyring((key, *(other for other in self.keys if other != key)))

    def without(self, key_id: str) -> Keyring:
        """Return a ring that no longer accepts the key of this id.

        Raises :class:`FleetKeyError` if it holds none, or if it is the one used to send.
        """
        key = self.find(key_id)
        if key == self.keys[0]:
            raise FleetKeyError(
                f"key {key.key_id.hex()} is the one used to send: `gpumesh keys use` another one first"
            )
        return Keyring(tuple(other for other in self.keys if other != key))

    def find(self, key_id: str) -> FleetKey:
        """Return the key with this id in hex; raises :class:`FleetKeyError` naming those there are."""
        for key in self.keys:
            if key.key_id.hex() == key_id.lower():
                return key
        raise FleetKeyError(f"no key {key_id} in the ring; it holds {', '.join(self.key_ids)}")

    def text(self) -> str:
        """Return the key file's text."""
        return "".join(f"{key.text}\n" for key in self.keys)


def new_key() -> str:
    """Return a fresh fleet key in base64, from the system's own randomness."""
    return FleetKey(secrets.token_bytes(KEY_BYTES)).text


def parse_key(text: str) -> FleetKey:
    """Return one key from its base64; raises :class:`FleetKeyError`."""
    return FleetKey(_decode(text.strip(), "the key"))


def _decode(word: str, what: str) -> bytes:
    try:
        secret = base64.b64decode(word, validate=True)
    except (binascii.Error, ValueError):
        raise FleetKeyError(
            f"{what} is not base64; `gpumesh init` and `gpumesh keys add` write right ones"
        ) from None
    if len(secret) != KEY_BYTES:
        raise FleetKeyError(f"{what} holds {len(secret)} bytes; a key is {KEY_BYTES}")
    return secret
