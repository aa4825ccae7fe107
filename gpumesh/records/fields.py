"""Reading the fields of a peer's entry: wrong types are refused, texts are bounded and made harmless.

Words that this version does not know come from a newer one, so they are read as the cautious choice instead
of refusing the whole entry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar

from gpumesh.errors import RejectedError
from gpumesh.model import Scalar, Word

WordT = TypeVar("WordT", bound=Word)

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@lru_cache(maxsize=2_048)
def clean_text(text: str, limit: int) -> str:
    """Return one line of at most ``limit`` characters without control characters.

    A peer's words reach operators' terminals: escape sequences and direction marks must not. One text is one
    string: thousands of hosts have the same few drivers, kernels and cards.
    """
    text = _UNPRINTABLE.sub(" ", text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


class Fields:
    """One map of a value, read field by field; each reader raises RejectedError on a wrong type."""

    def __init__(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise RejectedError("entry_shape", "not a map")
        self._map: Mapping[str, Any] = value

    def text(self, name: str, limit: int = 128) -> str:
        """Read a text, empty if absent."""
        return self.optional_text(name, limit) or ""

    def optional_text(self, name: str, limit: int = 128) -> str | None:
        """Read a text or None."""
        value = self._map.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise RejectedError("entry_shape", name)
        return clean_text(value, limit)

    def optional_integer(self, name: str, *, low: int = 0, high: int) -> int | None:
        """Read an integer within bounds, or None."""
        value = self._map.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise RejectedError("entry_range", name)
        return value

    def integer(self, name: str, *, low: int = 0, high: int) -> int:
        """Read an integer within bounds that must be there."""
        value = self.optional_integer(name, low=low, high=high)
        if value is None:
            raise RejectedError("entry_shape", name)
        return value

    def number(self, name: str, *, high: float) -> float:
        """Read a number from 0 to ``high``, 0 if absent."""
        value = self._map.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= high:
            raise RejectedError("entry_range", name)
        return float(value)

    def optional_flag(self, name: str) -> bool | None:
        """Read true, false or None (unknown)."""
        value = self._map.get(name)
        if value is not None and not isinstance(value, bool):
            raise RejectedError("entry_shape", name)
        return value

    def word(self, name: str, kind: type[WordT], cautious: WordT) -> WordT:
        """Read a word of an enumeration; ``cautious`` for one that this version does not know."""
        value = self._map.get(name)
        if not isinstance(value, str):
            raise RejectedError("entry_shape", name)
        try:
            return kind(value)
        except ValueError:
            return cautious

    def items(self, name: str, limit: int) -> list[Any]:
        """Read a list of at most ``limit`` items, empty if absent."""
        value = self._map.get(name, [])
        if not isinstance(value, list) or len(value) > limit:
            raise RejectedError("entry_shape", name)
        return value

    def texts_by_name(self, name: str, limit: int) -> dict[str, str]:
        """Read a map of short texts, empty if absent."""
        return {key: str(value) for key, value in self.scalars(name, limit).items()}

    def scalars(self, name: str, limit: int) -> dict[str, Scalar]:
        """Read a map of scalars with short names, empty if absent."""
        value = self._map.get(name, {})
        if not isinstance(value, dict) or len(value) > limit:
            raise RejectedError("entry_shape", name)
        read: dict[str, Scalar] = {}
        for key, item in value.items():
            if item is not None and not isinstance(item, str | int | float):
                raise RejectedError("entry_shape", name)
            read[clean_text(key, 255)] = clean_text(item, 255) if isinstance(item, str) else item
        return read
