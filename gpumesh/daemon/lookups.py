"""What seeds resolve to now; a resolver that hangs holds up neither the daemon nor its stop.

asyncio's own lookups run in a pool whose threads are joined at the end: a name server that does not answer
would keep a stopping daemon for half a minute, until systemd kills it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from gpumesh.config.fields import parse_endpoint
from gpumesh.model import Address

TIMEOUT_S: Final = 5.0
MAX_PER_NAME: Final = 8
MAX_UNDER_WAY: Final = 64
"""Lookups, and threads, at a time: a resolver that hangs holds no more."""

Answers = list[tuple[Any, Any, int, str, tuple[Any, ...]]]
GetAddrInfo = Callable[..., Answers]


class Lookups:
    """Resolves anew at each call: names move (consul#22753, libnetwork#1734).

    A lookup that is under way is waited for again, never doubled: at most one thread a seed.
    """

    def __init__(self, timeout_s: float = TIMEOUT_S, ask: GetAddrInfo = socket.getaddrinfo) -> None:
        self._timeout_s = timeout_s
        self._ask = ask
        self._under_way: dict[str, asyncio.Future[Answers]] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    async def resolve(self, seeds: Iterable[str], default_port: int) -> tuple[list[Address], dict[str, str]]:
        """Return what the seeds resolve to, and for each that does not, why."""
        names = list(dict.fromkeys(seeds))
        for seed in [name for name, answer in self._under_way.items() if answer.done() and name not in names]:
            del self._under_way[seed]  # a seed of an earlier configuration
        failed: dict[str, str] = {}
        wanted: dict[str, asyncio.Future[Answers]] = {}
        for seed in names:
            if seed in self._under_way or len(self._under_way) < MAX_UNDER_WAY:
                wanted[seed] = self._start(seed, default_port)
            else:
                failed[seed] = f"waits, for {MAX_UNDER_WAY} names are being looked up"
        if wanted:
            await asyncio.wait(wanted.values(), timeout=self._timeout_s)
        found: list[Address] = []
        for seed, answer in wanted.items():
            if not answer.done():
                failed[seed] = f"no answer from the resolver within {self._timeout_s:g} s"
                continue
            self._under_way.pop(seed, None)
            error = answer.exception()
            if error is None:
                found.extend(Address(str(at[4][0]), int(at[4][1])) for at in answer.result()[:MAX_PER_NAME])
            else:
                failed[seed] = f"does not resolve: {getattr(error, 'strerror', None) or error}"
        return list(dict.fromkeys(found)), failed

    def _start(self, seed: str, default_port: int) -> asyncio.Future[Answers]:
        if seed in self._under_way:
            return self._under_way[seed]
        host, port = parse_endpoint(seed)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answers] = loop.create_future()
        self._under_way[seed] = answer

        def look_up() -> None:
            taken: Answers | OSError | UnicodeError
            try:
                taken = self._ask(host, port or default_port, type=socket.SOCK_DGRAM)
            except (OSError, UnicodeError) as error:
                taken = error
            with contextlib.suppress(RuntimeError):  # the daemon has ended meanwhile
                loop.call_soon_threadsafe(_settle, answer, taken)

        threading.Thread(target=look_up, name=f"look up {seed}", daemon=True).start()
        return answer


def _settle(answer: asyncio.Future[Answers], taken: Answers | OSError | UnicodeError) -> None:
    if answer.done():
        return
    if isinstance(taken, Exception):
        answer.set_exception(taken)
        answer.exception()  # looked at, should nobody ask for it any more
    else:
        answer.set_result(taken)
