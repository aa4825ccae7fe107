"""One line of the report, and the bound that it is held against: shown to readers, asserted by no test."""

from dataclasses import dataclass
from typing import Any

OWN = "gpumesh"


@dataclass(frozen=True, slots=True)
class Bound:
    """What gpumesh's value, or its ratio to a peer's, may be."""

    most: float
    over: str = ""
    """The peer whose value it is a share of; empty: gpumesh's own value is bounded."""
    is_exclusive: bool = False
    """It must stay below."""

    def is_met(self, values: dict[str, float | None]) -> bool | None:
        """Tell whether it holds; None if what it takes was not measured."""
        own, base = values.get(OWN), values.get(self.over) if self.over else 1.0
        if own is None or base is None:
            return None
        return own < self.most * base if self.is_exclusive else own <= self.most * base

    def __str__(self) -> str:
        """Return it in words."""
        words = f"{'below' if self.is_exclusive else 'at most'} {self.most:g}"
        return f"{words} of {self.over}'s" if self.over else words


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report: a measure, and its value for each make by name; None: not measured."""

    measure: str
    unit: str
    values: dict[str, float | None]
    detail: dict[str, Any]
    bound: Bound | None = None
