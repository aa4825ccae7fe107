"""The cards this host is known to have, kept across restarts so that a missing one is missed.

A value only: the daemon keeps its JSON on disk. A damaged file costs the memory, never the start, and is
told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, Final

MAX_CARDS: Final = 64
"""Cards remembered; no known host holds more, and a hostile or broken driver cannot grow the table."""
_VERSION: Final = 1
MAX_TEXT: Final = 128
_MAX_MEMORY: Final = 1 << 50
_MAX_INDEX: Final = 1 << 16
_MAX_UNIX: Final = 1e11
_UUID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,95}")


class _DamageError(ValueError):
    """The stored inventory is not one; the text says where."""


@dataclass(frozen=True, slots=True)
class KnownCard:
    """What is remembered of one card: enough to name it when it is gone."""

    uuid: str
    model: str
    pci_bus_id: str
    """In the driver's form."""
    index: int
    """The driver's index when it was last seen."""
    memory_bytes: int | None = None
    capability: str | None = None
    first_seen: float = 0.0
    """Unix seconds, for people."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The known cards by UUID, in order of index; ``problem`` says what was wrong with the stored file."""

    cards: tuple[KnownCard, ...] = ()
    problem: str = ""

    def find(self, uuid: str) -> KnownCard | None:
        """Return the known card with this UUID, or None."""
        return next((card for card in self.cards if card.uuid == uuid), None)

    def with_cards(self, cards: Iterable[KnownCard]) -> Inventory:
        """Return an inventory of the first :data:`MAX_CARDS` of these cards."""
        kept = islice(cards, MAX_CARDS)
        return replace(self, cards=tuple(sorted(kept, key=lambda card: (card.index, card.uuid))))

    def without(self, uuid: str) -> Inventory:
        """Return the inventory after the operator took this card out for good."""
        return replace(self, cards=tuple(card for card in self.cards if card.uuid != uuid))

    def to_json(self) -> dict[str, Any]:
        """Return the document to keep on disk, of JSON's own types."""
        return {"version": _VERSION, "cards": [asdict(card) for card in self.cards]}

    @classmethod
    def from_json(cls, document: Any) -> Inventory:
        """Return the inventory kept as ``document``; never raises.

        Anything that is not a whole, valid inventory gives an empty one whose ``problem`` says why: half a
        memory would call present cards new and missing cards unknown.
        """
        try:
            return cls(cards=_read_document(document))
        except _DamageError as error:
            return cls(problem=str(error))


def _read_document(document: Any) -> tuple[KnownCard, ...]:
    if not isinstance(document, Mapping) or not isinstance(document.get("cards"), list):
        raise _DamageError("holds no list of cards")
    if document.get("version") != _VERSION:
        raise _DamageError(f"version {document.get('version')!r} instead of {_VERSION}")
    if len(document["cards"]) > MAX_CARDS:
        raise _DamageError(f"more than {MAX_CARDS} cards")
    cards = tuple(_read_card(entry, number) for number, entry in enumerate(document["cards"]))
    if len({card.uuid for card in cards}) != len(cards):
        raise _DamageError("one UUID stands twice")
    return cards


def _read_card(entry: Any, number: int) -> KnownCard:
    if not isinstance(entry, Mapping):
        raise _DamageError(f"card {number} is not a table")

    def text(key: str, *, is_optional: bool = False) -> Any:
        value = entry.get(key)
        if (value is None and is_optional) or (isinstance(value, str) and len(value) <= MAX_TEXT):
            return value
        raise _DamageError(f"card {number}: {key} = {str(value)[:40]!r} is not a short text")

    def whole(key: str, high: int) -> int:
        value = entry.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= high:
            return value
        raise _DamageError(f"card {number}: {key} = {str(value)[:40]!r} is not a whole number up to {high}")

    if not is_uuid(text("uuid")):
        raise _DamageError(f"card {number}: uuid is not a GPU's UUID")
    seen = entry.get("first_seen", 0.0)
    is_instant = isinstance(seen, int | float) and not isinstance(seen, bool) and 0 <= seen < _MAX_UNIX
    return KnownCard(
        uuid=text("uuid"),
        model=text("model"),
        pci_bus_id=text("pci_bus_id"),
        index=whole("index", _MAX_INDEX),
        memory_bytes=None if entry.get("memory_bytes") is None else whole("memory_bytes", _MAX_MEMORY),
        capability=text("capability", is_optional=True),
        first_seen=float(seen) if is_instant else 0.0,
    )


def is_uuid(text: str) -> bool:
    """Say whether ``text`` can stand for a card: letters, digits and dashes, at most 96 of them."""
    return _UUID.fullmatch(text) is not None
