"""The daemon's listeners for people and programs: HTTP, metrics, control socket."""

from __future__ import annotations

import asyncio
import contextlib
import platform
from pathlib import Path
from typing import Final

from aiohttp import web

import gpumesh
from gpumesh.config import Config
from gpumesh.config.fields import parse_endpoint
from gpumesh.daemon.addresses import is_loopback
from gpumesh.daemon.control import Controlled, make_control_app, serve_control
from gpumesh.daemon.listener import Listener
from gpumesh.errors import GpumeshError
from gpumesh.model import HostFacts, Identity
from gpumesh.status.app import make_app, make_metrics_app
from gpumesh.status.source import StatusSource

MAX_CONNECTIONS: Final = 256
"""A listener's, event streams included."""


class StartError(GpumeshError):
    """The daemon cannot start; the message says what to change."""


class Serving:
    """The applications and their sites; :meth:`close` ends them all."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    async def start(self, source: StatusSource, controlled: Controlled, config: Config) -> None:
        """Listen everywhere the configuration says. Errors: :class:`StartError` naming the key."""
        await self._listen(make_app(source, config), "http.listen", config.http.listen)
        if config.http.metrics_listen:
            app = make_metrics_app(source, config)
            await self._listen(app, "http.metrics_listen", config.http.metrics_listen)
        path = Path(config.control.socket)
        try:
            self._listeners.append(await serve_control(make_control_app(controlled), path))
        except OSError as error:
            raise StartError(
                f"control.socket = {path}: {in_words(error)}; its directory must belong to the daemon's user"
            ) from error

    async def close(self) -> None:
        """Stop listening; requests under way get their answer."""
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                await listener.close()
        self._listeners.clear()

    async def _listen(self, app: web.Application, key: str, endpoint: str) -> None:
        host, port = parse_endpoint(endpoint)
        listener = Listener(app, MAX_CONNECTIONS)
        try:
            await listener.open(
                lambda keeper: asyncio.get_running_loop().create_server(keeper, host or None, port)
            )
        except OSError as error:
            raise StartError(
                f'{key} = "{endpoint}": {in_words(error)}; stop what listens there or choose another port'
            ) from error
        self._listeners.append(listener)


def facts_of(identity: Identity, config: Config) -> HostFacts:
    """Return what this host tells the fleet of itself once."""
    release: dict[str, str] = {}
    with contextlib.suppress(OSError):
        release = platform.freedesktop_os_release()
    host, port = parse_endpoint(config.http.listen)
    return HostFacts(
        name=identity.name,
        boot_id=identity.boot_id,
        version=gpumesh.__version__,
        os=release.get("PRETTY_NAME", platform.system()),
        kernel=platform.release(),
        labels=config.host.label_map,
        http="" if is_loopback(host) else f"{host}:{port}",
    )


def in_words(error: OSError) -> str:
    """Return what the system says of an error, without its number."""
    return error.strerror or str(error)
