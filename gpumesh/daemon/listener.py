"""One place where HTTP is served, TCP or Unix, behind a doorkeeper."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gpumesh.daemon.doorkeeper import Doorkeeper

KEEP_ALIVE_S: Final = 15.0
CLOSE_S: Final = 1.0
"""How long a request under way may take to get its answer when the daemon stops."""

ServerFactory = Callable[[Doorkeeper], Awaitable[asyncio.AbstractServer]]


def _is_ours(record: logging.LogRecord) -> bool:
    """Tell whether a fault is worth a line: a request that is not HTTP is its sender's, whoever that is."""
    fault = record.exc_info[1] if record.exc_info else None
    return not isinstance(fault, HttpProcessingError | ConnectionError)


_log = logging.getLogger(__name__)
_log.addFilter(_is_ours)


class Listener:
    """Serves an application from :meth:`open` until :meth:`close`; at most ``limit`` connections."""

    def __init__(self, app: web.Application, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._runner = web.AppRunner(app, access_log=None, logger=_log, keepalive_timeout=KEEP_ALIVE_S)
        self._server: asyncio.AbstractServer | None = None

    async def open(self, make_server: ServerFactory) -> None:
        """Listen by ``make_server``, which is given the protocol factory. Errors: its OSError."""
        keeper = Doorkeeper(self._make_handler, self._limit)
        self._app.on_response_prepare.append(keeper.note_answer)
        await self._runner.setup()
        try:
            self._server = await make_server(keeper)
        except OSError:
            await self._runner.cleanup()
            raise

    async def close(self) -> None:
        """Stop listening; requests under way get their answer."""
        if self._server is None:
            return
        self._server.close()
        # Streams of events are told to end first; what goes on after that is cut off.
        await self._runner.shutdown()
        if self._runner.server is not None:
            await self._runner.server.shutdown(CLOSE_S)
        await self._runner.cleanup()
        self._server = None

    def _make_handler(self) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None
        return server()
