"""Which keys each host of a keyed fleet has, and what its operator does to them."""

from __future__ import annotations

from gpumesh.config.keyring import Keyring
from gpumesh.swim.seal import FleetSealer


class KeyBook:
    """Keyrings by host id: kept across restarts, taken up at once by a daemon that runs, as a reload does.

    Without a first ring the fleet is unkeyed: what a key protects from does not happen in most scenarios, and
    sealing would take most of the time.
    """

    def __init__(self, fleet: str, first: Keyring | None = None) -> None:
        self._fleet = fleet
        self._first = first
        self._rings: dict[str, Keyring] = {}
        self._sealers: dict[str, FleetSealer] = {}

    def sealer(self, host_id: str, session: bytes) -> FleetSealer:
        """Return the sealer of a daemon that starts now."""
        made = FleetSealer(self._rings.get(host_id, self._first), self._fleet, session)
        self._sealers[host_id] = made
        return made

    def give(self, host_id: str, ring: Keyring) -> None:
        """Put another keyring in a host's key file, and have its daemon read it if one runs."""
        self._rings[host_id] = ring
        self._sealers[host_id].rekey(ring)

    def lacked_by(self, host_id: str) -> str | None:
        """Return the id of the key that a host last heard of and does not have."""
        return self._sealers[host_id].unknown_key_id
