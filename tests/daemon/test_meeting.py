"""What the daemon joins by: seeds resolved at each attempt, then the peers of earlier runs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gpumesh.daemon.lookups import Lookups
from gpumesh.daemon.meeting import Meeting
from gpumesh.daemon.peercache import save_peers
from gpumesh.daemon.statedir import StateDirectory
from gpumesh.model import Address, View

KEPT = Address("10.0.0.9", 7977)


class Joiner:
    """An engine that asks for seeds once more whenever the test says so."""

    def __init__(self) -> None:
        self.is_wanting = True
        self.attempts: asyncio.Queue[list[Address]] = asyncio.Queue()

    def wants_seeds(self, now: float) -> bool:
        return self.is_wanting

    def seed(self, addresses: Sequence[Address], now: float) -> None:
        self.is_wanting = False
        self.attempts.put_nowait(list(addresses))

    def view(self, now: float) -> View:
        raise AssertionError("no peer is kept so soon")

    async def next_attempt(self) -> list[Address]:
        return await asyncio.wait_for(self.attempts.get(), 30)


class Names:
    """A name server whose one name leads to ``host``; to nowhere while that is None."""

    def __init__(self, host: str) -> None:
        self.host: str | None = host

    def ask(self, _name: str, port: int, **_: Any) -> list[Any]:
        if self.host is None:
            raise OSError("no such name now")
        return [(None, None, 0, "", (self.host, port))]


@asynccontextmanager
async def running(meeting: Meeting, joiner: Joiner) -> AsyncIterator[None]:
    work = asyncio.create_task(meeting.run(joiner, lambda: None))
    yield
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_libnetwork_1734_the_daemon_goes_where_the_name_of_its_seed_leads_now(tmp_path: Path) -> None:
    names, joiner = Names("10.0.0.1"), Joiner()
    meeting = Meeting(("seed.example:7000",), StateDirectory(tmp_path), Lookups(30, names.ask))
    async with running(meeting, joiner):
        assert await joiner.next_attempt() == [Address("10.0.0.1", 7000)]
        names.host, joiner.is_wanting = "10.0.0.2", True
        meeting.notice(joiner)
        assert await joiner.next_attempt() == [Address("10.0.0.2", 7000)]
        assert meeting.addresses() == [Address("10.0.0.2", 7000)]


async def test_consul_22753_while_the_only_seed_does_not_resolve_peers_of_earlier_runs_are_called(
    tmp_path: Path,
) -> None:
    state, names, joiner = StateDirectory(tmp_path), Names("10.0.0.1"), Joiner()
    save_peers(state, [KEPT])
    meeting = Meeting(("seed.example:0",), state, Lookups(30, names.ask))
    names.host = None
    async with running(meeting, joiner):
        assert await joiner.next_attempt() == [KEPT]
        names.host, joiner.is_wanting = "10.0.0.1", True
        meeting.notice(joiner)
        assert await joiner.next_attempt() == [Address("10.0.0.1", 7977), KEPT]
