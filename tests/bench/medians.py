"""The median of what may be unknown."""

from collections.abc import Sequence
from statistics import median


def known_median(values: Sequence[float | None]) -> float | None:
    """Return the median; None without values, or if most are unknown, which sort last."""
    if not values:
        return None
    found = median(float("inf") if value is None else value for value in values)
    return None if found == float("inf") else found
