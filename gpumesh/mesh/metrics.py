"""The parts' counters under the names that ``/metrics`` makes series of."""

from __future__ import annotations

from collections.abc import Mapping


def named(prefix: str, counters: Mapping[str, int]) -> dict[str, int]:
    """Return counters as ``<prefix>family/label``, those without a label as ``<prefix>name_total``."""
    return {
        f"{prefix}{name}" if "/" in name else f"{prefix}{name}_total": count
        for name, count in counters.items()
    }


def as_gauges(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return lengths of tables and queues as gauges: ``size_records_hosts`` and the like."""
    return {"size_" + name.replace("/", "_"): size for name, size in sizes.items()}
