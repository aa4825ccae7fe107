"""Where this host is reached: looked at again for as long as the daemon lives.

A daemon may be up before the network is (a late DHCP lease, Wi-Fi), or outlive an address. Peers must be told
the real one without a restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from gpumesh.daemon.addresses import Known, advertised, is_loopback, is_unspecified, unheard
from gpumesh.model import Address

LOOK_EVERY_S: Final = 5.0
LOOK_FOR_ANY_S: Final = 1.0
"""While there is no network yet: before peers are met under an address that is theirs, too."""
NUM_ALIKE: Final = 2
"""Looks in a row that must find the same new address: an interface that comes up has several for a moment."""

_MAX_NAMED: Final = 3

_log = logging.getLogger(__name__)


class Whereabouts:
    """Knows the address that peers must use.

    A configured address (``advertise``, or a bind to one address) never changes. ``find`` stands in for the
    kernel's routes: it takes the bound address, the configured one, the fleet's and the present one.
    """

    def __init__(
        self,
        bind: Address,
        advertise: str,
        known: Known,
        find: Callable[[Address, str, Known, Address | None], Address] = advertised,
    ) -> None:
        self._bind = bind
        self._is_fixed = bool(advertise) or not is_unspecified(bind.host)
        self._find = find
        self._candidate: Address | None = None
        self._num_alike = 0
        self.address = find(bind, advertise, known, None)
        if not self._is_fixed and is_loopback(self.address.host) and (hosts := unheard(bind)):
            _log.warning(
                'gossip.bind = "%s" is IPv4 alone, and this host has IPv6 only (%s): no peer reaches '
                'it; set gossip.bind = "[::]:%d"',
                bind,
                ", ".join(hosts[:_MAX_NAMED]),
                bind.port,
            )

    async def watch(self, known: Callable[[], Known], on_move: Callable[[Address], None]) -> None:
        """Look again and again, and tell each move; ends only by cancellation.

        ``known``: addresses of the fleet known now; the routes to them decide which address is meant.
        """
        while not self._is_fixed:
            await asyncio.sleep(LOOK_FOR_ANY_S if is_loopback(self.address.host) else LOOK_EVERY_S)
            before = self.address
            if self.look(known()):
                _log.info("this host's address is %s now (it was %s); peers are told", self.address, before)
                on_move(self.address)

    def look(self, known: Known) -> bool:
        """Look once; tell whether the host moved."""
        found = self._find(self._bind, "", known, self.address)
        # Without any network nobody could be told, and the old address may come back.
        if self._is_fixed or found == self.address or is_loopback(found.host):
            self._candidate = None
            return False
        self._num_alike = self._num_alike + 1 if found == self._candidate else 1
        self._candidate = found
        if self._num_alike < NUM_ALIKE and not is_loopback(self.address.host):
            return False
        self.address, self._candidate = found, None
        return True
