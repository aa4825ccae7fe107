"""HKDF-SHA256 (RFC 5869), one block: keys of sessions and streams out of the fleet's key."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

BLOCK_BYTES: Final = 32


def derive(secret: bytes, salt: bytes, info: bytes, size: int = BLOCK_BYTES) -> bytes:
    """Return HKDF-SHA256 (RFC 5869) of the secret, ``size`` bytes of at most 32."""
    if size > hashlib.sha256().digest_size:
        raise ValueError("one block of HKDF is at most 32 bytes")
    extracted = hmac.digest(salt, secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")[:size]
