"""Values on the wire: ids as 16 bytes, addresses as packed literals, integers within bounds.

Decoding accepts the exact type and range of each field and nothing else. The protocol knows neither floats,
text nor maps, so that NaN (consul#3023), deep nesting and invalid UTF-8 have nowhere to stand.
"""

from __future__ import annotations

import socket
from functools import lru_cache
from typing import Any, Final, cast

import msgpack

from gpumesh.errors import RejectedError
from gpumesh.model import Address, host_id_text

ID_BYTES: Final = 16
MAX_EPOCH: Final = 2**48
MAX_INCARNATION: Final = 2**32
MAX_BEAT: Final = 2**48
MAX_SEQ: Final = 2**64 - 1
MAX_PORT: Final = 65_535
_FAMILIES: Final = {4: socket.AF_INET, 16: socket.AF_INET6}


@lru_cache(maxsize=32_768)
def id_to_wire(host_id: str) -> bytes:
    """Return a canonical UUID's 16 bytes; raises :class:`ValueError` for anything else."""
    raw = bytes.fromhex(host_id.replace("-", ""))
    if id_from_wire(raw) != host_id:
        raise ValueError(f"host_id must be a lower-case UUID, is {host_id!r}")
    return raw


def id_from_wire(raw: Any) -> str:
    """Return the UUID in 16 bytes."""
    if type(raw) is not bytes or len(raw) != ID_BYTES:
        raise RejectedError("malformed", "host id")
    return host_id_text(raw)


@lru_cache(maxsize=32_768)
def address_to_wire(address: Address) -> tuple[bytes, int]:
    """Return (packed IP, port); raises :class:`ValueError` if the host is no IP literal."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.inet_pton(family, address.host), address.port
    except OSError:
        raise ValueError(f"address must be an IP literal, is {address.host!r}") from None


def address_from_wire(packed: Any, port: Any) -> Address:
    """Return the address; raises :class:`RejectedError`."""
    family = _FAMILIES.get(len(packed)) if type(packed) is bytes else None
    if family is None:
        raise RejectedError("malformed", "address")
    if not any(packed):
        raise RejectedError("malformed", "unspecified address")
    return Address(socket.inet_ntop(family, packed), integer(port, MAX_PORT, 1))


def canonical(address: Address) -> Address:
    """Return the address in the one spelling all hosts use; raises :class:`ValueError` for a name."""
    try:
        return address_from_wire(*address_to_wire(address))
    except RejectedError as error:
        raise ValueError(f"{address} is no address to be reached at: {error.detail}") from None


def integer(value: Any, most: int, least: int = 0) -> int:
    """Return the value if it is an integer (no bool, no float) within the bounds."""
    if type(value) is not int or not least <= value <= most:
        raise RejectedError("malformed", "integer")
    return value


def binary(value: Any, most: int) -> bytes:
    """Return the value if it is binary of at most ``most`` bytes."""
    if type(value) is not bytes or len(value) > most:
        raise RejectedError("malformed", "binary")
    return value


def array(value: Any, size: int) -> tuple[Any, ...]:
    """Return the value if it is an array of exactly ``size``."""
    if type(value) is not tuple or len(value) != size:
        raise RejectedError("malformed", "array")
    return value


def unpack(body: bytes, max_array: int) -> Any:
    """Return the one msgpack value in ``body``, arrays as tuples.

    Every count and length is held against the bounds before it is allocated; text, maps and extensions are
    refused. Raises :class:`RejectedError`.
    """
    try:
        return msgpack.unpackb(
            body,
            use_list=False,
            raw=True,
            max_array_len=max_array,
            max_bin_len=len(body),
            max_str_len=0,
            max_map_len=0,
            max_ext_len=0,
        )
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        raise RejectedError("malformed", type(error).__name__) from None


def pack(value: Any) -> bytes:
    """Return a value of this program's own making as msgpack."""
    return cast("bytes", msgpack.packb(value))
