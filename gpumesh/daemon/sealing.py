"""How this host seals its gossip, and where it may listen: without a key, on loopback and alone."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpumesh.config import GossipConfig
from gpumesh.config.fields import parse_endpoint
from gpumesh.config.keyring import Keyring
from gpumesh.daemon.addresses import is_loopback
from gpumesh.daemon.fleetkeys import read_key_file
from gpumesh.errors import FleetKeyError
from gpumesh.model import Address
from gpumesh.swim.seal import SESSION_BYTES, FleetSealer

_LOOPBACK: Final = "127.0.0.1"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sealing:
    """The keys of this run and the address it may bind to."""

    keyring: Keyring | None
    bind: Address
    fleet: str

    @property
    def member_of(self) -> str:
        """The fleet's label, or empty for a host without a key."""
        return self.fleet if self.keyring else ""

    def make_sealer(self) -> FleetSealer:
        """Return the sealer of this run, with a fresh session."""
        return FleetSealer(self.keyring, self.fleet, secrets.token_bytes(SESSION_BYTES))


def read_sealing(gossip: GossipConfig) -> Sealing:
    """Read the key file and decide where to bind. Errors: :class:`FleetKeyError`."""
    host, port = parse_endpoint(gossip.bind)
    keyring = read_keyring(gossip)
    if keyring is None and not is_loopback(host):
        _log.warning(
            "no fleet key at %s: this host runs alone. `sudo gpumesh init` makes a fleet; on a member, "
            "`sudo gpumesh token` prints what `sudo gpumesh join TOKEN` takes here",
            gossip.key_file,
        )
        host = _LOOPBACK
    return Sealing(keyring, Address(host, port), gossip.fleet)


def read_keyring(gossip: GossipConfig) -> Keyring | None:
    """Return the fleet's keys, or None without a key file. Errors: :class:`FleetKeyError` naming the file."""
    text = read_key_file(Path(gossip.key_file))
    if text is None:
        return None
    try:
        return Keyring.parse(text)
    except FleetKeyError as error:
        raise FleetKeyError(f"{gossip.key_file}: {error}") from error
