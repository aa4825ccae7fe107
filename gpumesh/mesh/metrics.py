"""The parts' counters and the sizes of their stores under the names that ``/metrics`` makes series of."""

from __future__ import annotations

from collections.abc import Mapping


def named(prefix: str, counters: Mapping[str, int]) -> dict[str, int]:
    """Return counters as ``<prefix>family/label``, those without a label as ``<prefix>name_total``."""
    return {
        f"{prefix}{name}" if "/" in name else f"{prefix}{name}_total": count
        for name, count in counters.items()
    }


def as_gauges(sizes: Mapping[str, int], limits: Mapping[str, int]) -> dict[str, int]:
    """Return what stores hold and may hold: ``size_records_hosts``, ``limit_records_hosts`` and the like."""
    return {
        f"{kind}_{name.replace('/', '_')}": number
        for kind, numbers in (("size", sizes), ("limit", limits))
        for name, number in numbers.items()
    }
