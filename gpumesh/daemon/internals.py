"""The daemon's counts and sizes under the names that the metrics use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_MEMBERSHIP: Final = "swim/"


def internals(
    counters: Mapping[str, int], sizes: Mapping[str, int], socket_counters: Mapping[str, int]
) -> dict[str, float]:
    """Return one mapping for ``gpumesh.status.source.StatusSource.counters``.

    Membership's counts lose their part's name (``swim/drops/replay`` is ``drops/replay``), for they are what
    an operator asks for first; the others keep theirs. Sizes of tables and queues become gauges.
    """
    named: dict[str, float] = {}
    for name, count in counters.items():
        plain = name.removeprefix(_MEMBERSHIP)
        named[plain if "/" in plain else name] = count
    named.update((f"size_{name.replace('/', '_')}", size) for name, size in sizes.items())
    named.update(socket_counters)
    return named
