"""Finding the fleet: seeds resolved anew at each attempt, and the peers of earlier runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from gpumesh.daemon.addresses import Known
from gpumesh.daemon.clock import boot_time
from gpumesh.daemon.lookups import MAX_UNDER_WAY, Lookups
from gpumesh.daemon.peercache import MAX_PEERS, load_peers, peers_of, save_peers
from gpumesh.daemon.statedir import StateDirectory
from gpumesh.model import Address, View

KEEP_EVERY_S: Final = 30.0
DEFAULT_PORT: Final = 7977

_log = logging.getLogger(__name__)


class Joiner(Protocol):
    """The part of the mesh engine that joins."""

    def wants_seeds(self, now: float) -> bool:
        """Whether an attempt to join is due."""
        ...

    def seed(self, addresses: Sequence[Address], now: float) -> None:
        """Join by these addresses."""
        ...

    def view(self, now: float) -> View:
        """Return the fleet as seen now."""
        ...


class Meeting:
    """Feeds the engine addresses to join by for as long as it asks, and keeps those of its peers.

    ``lookups`` resolves the seeds; the system's resolver by default.
    """

    def __init__(self, seeds: tuple[str, ...], state: StateDirectory, lookups: Lookups | None = None) -> None:
        self.seeds = seeds
        self._state = state
        self._lookups = Lookups() if lookups is None else lookups
        self._found: list[Address] = []
        self._cached = load_peers(state)
        self._kept = list(self._cached)
        self._kept_at = boot_time()
        self._is_due = asyncio.Event()
        self._complaints: dict[str, str] = {}

    def addresses(self) -> list[Address]:
        """Return what the seeds last resolved to, then the peers kept."""
        return [*self._found, *(peer for peer in self._kept if peer not in self._found)]

    def known(self) -> Known:
        """Return the same, told apart."""
        return Known(tuple(self._found), tuple(self._kept))

    @property
    def sizes(self) -> dict[str, int]:
        """How many peers are kept and how many lookups are under way, and how many there may be."""
        return {
            "size_peer_cache": len(self._kept),
            "limit_peer_cache": MAX_PEERS,
            "size_lookups": len(self._lookups),
            "limit_lookups": MAX_UNDER_WAY,
        }

    async def resolve_seeds(self) -> None:
        """Resolve the seeds anew; what does not resolve is said and tried again next time."""
        self._found, failed = await self._lookups.resolve(self.seeds, DEFAULT_PORT)
        self._complain(failed)

    def notice(self, joiner: Joiner) -> None:
        """See whether an attempt to join or a look at the peers is due; called whenever timers have run."""
        now = boot_time()
        if joiner.wants_seeds(now) or now - self._kept_at >= KEEP_EVERY_S:
            self._is_due.set()

    async def run(self, joiner: Joiner, pump: Callable[[], None]) -> None:
        """Serve the engine's wish for seeds; ends only by cancellation."""
        while True:
            if joiner.wants_seeds(boot_time()):
                await self.resolve_seeds()
                joiner.seed(
                    [*self._found, *(peer for peer in self._cached if peer not in self._found)], boot_time()
                )
                pump()
            if boot_time() - self._kept_at >= KEEP_EVERY_S:
                self._kept_at = boot_time()
                self.keep(joiner)
            self._is_due.clear()
            await self._is_due.wait()

    def keep(self, joiner: Joiner) -> None:
        """Keep the addresses of all peers known now, if they changed; an empty fleet forgets none."""
        peers = peers_of(joiner.view(boot_time()))
        if peers and sorted(peers) != sorted(self._kept) and save_peers(self._state, peers):
            self._kept = peers

    def _complain(self, failed: dict[str, str]) -> None:
        """Log each seed's trouble once, and again when it changes."""
        for seed, trouble in failed.items():
            if self._complaints.get(seed) != trouble:
                _log.warning("seed %s %s; it is tried again for ever", seed, trouble)
        self._complaints = failed
