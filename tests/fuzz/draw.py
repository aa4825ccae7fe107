"""Values drawn from a fuzzer's bytes, so that a changed byte changes one thing that is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Takes the bytes in order; when they are used up it draws zeros."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_over(self) -> bool:
        """All bytes are used up."""
        return self._at >= len(self._data)

    def take(self, num_bytes: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        taken = self._data[self._at : self._at + num_bytes]
        self._at += num_bytes
        return taken

    def integer(self, most: int) -> int:
        """Return an integer from 0 to ``most``."""
        size = max(1, (most.bit_length() + 7) // 8)
        return int.from_bytes(self.take(size), "big") % (most + 1)

    def chosen(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.integer(len(options) - 1)]

    def blob(self, most: int = 300) -> bytes:
        """Return some bytes, their number drawn first."""
        return self.take(self.integer(most))
