"""Hosts that differ from most of the fleet: for each item, where more than half of the hosts agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from gpumesh.model import HostView, Reachability, View

MIN_KNOWN: Final = 3
"""With fewer hosts that say anything there is no most of them."""
_GONE: Final = frozenset({Reachability.FAILED, Reachability.LEFT})


def _toolkit(host: HostView) -> str | None:
    baseline = host.health.baseline if host.health else None
    items = baseline.items if baseline else ()
    return next((item.found for item in items if item.name == "container-toolkit"), None)


_ITEMS: Final[Mapping[str, Callable[[HostView], str | None]]] = {
    "driver": lambda host: host.health.driver_version if host.health else None,
    "cuda": lambda host: host.health.cuda_version if host.health else None,
    "container-toolkit": _toolkit,
    "kernel": lambda host: (host.facts.kernel or None) if host.facts else None,
}


def outliers(view: View) -> list[dict[str, object]]:
    """Return an entry for each host and item that differs from what more than half of the hosts have.

    Hosts that are gone, and what a host does not say, do not count.
    """
    hosts = [host for host in view.hosts if host.reachability not in _GONE]
    found: list[dict[str, object]] = []
    for name, read in _ITEMS.items():
        said = {host.host_id: value for host in hosts if (value := read(host)) is not None}
        if len(said) < MIN_KNOWN:
            continue
        most, num_most = Counter(said.values()).most_common(1)[0]
        if num_most * 2 <= len(said):
            continue
        found.extend(
            {
                "host_id": host.host_id,
                "host": host.name,
                "item": name,
                "found": said[host.host_id],
                "most": most,
                "num_most": num_most,
                "num_known": len(said),
            }
            for host in hosts
            if said.get(host.host_id, most) != most
        )
    return found
