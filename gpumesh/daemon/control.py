"""The control socket: the only way to change anything, for root and the members of its group."""

from __future__ import annotations

import asyncio
import errno
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

from aiohttp import web

from gpumesh.daemon.controlbody import REASON, read_body
from gpumesh.daemon.listener import Listener
from gpumesh.daemon.releasecontrol import Releasing, add_release_routes
from gpumesh.daemon.silencecontrol import Silenced, add_silence_routes
from gpumesh.model import Admission
from gpumesh.status.problem import problems

MAX_BODY_BYTES: Final = 16 << 10
SOCKET_MODE: Final = 0o660
MAX_CONNECTIONS: Final = 32


class Controlled(Silenced, Releasing, Protocol):
    """What can be changed from outside."""

    def set_operator_admission(self, admission: Admission, reason: str) -> None:
        """Take the operator's word on new work; kept across restarts."""
        ...

    def begin_leave(self) -> None:
        """Say goodbye to the fleet and stop."""
        ...


def make_control_app(controlled: Controlled) -> web.Application:
    """Return the application behind the control socket."""
    app = web.Application(middlewares=[problems], client_max_size=MAX_BODY_BYTES)

    def admits(admission: Admission) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            reason = await _read_reason(request)
            controlled.set_operator_admission(admission, reason)
            return web.json_response({"admission": admission.value, "reason": reason})

        return handle

    async def leave(request: web.Request) -> web.Response:
        await _read_reason(request)
        controlled.begin_leave()
        return web.json_response({"leaving": True})

    app.router.add_post("/v1/cordon", admits(Admission.CORDONED))
    app.router.add_post("/v1/uncordon", admits(Admission.OPEN))
    app.router.add_post("/v1/drain", admits(Admission.DRAINING))
    app.router.add_post("/v1/leave", leave)
    add_silence_routes(app, controlled)
    add_release_routes(app, controlled)
    return app


async def serve_control(app: web.Application, path: Path) -> Listener:
    """Serve the application on a Unix socket. Errors: OSError if it cannot be made.

    A socket that an earlier daemon left behind is replaced; one that answers, or anything else in its place,
    is not.
    """
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    _clear_place(path)
    listener = Listener(app, MAX_CONNECTIONS)
    try:
        await listener.open(lambda keeper: asyncio.get_running_loop().create_unix_server(keeper, str(path)))
        path.chmod(SOCKET_MODE)  # noqa: ASYNC240 - one system call on a tmpfs
    except OSError:
        await listener.close()
        raise
    return listener


def _clear_place(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(errno.EEXIST, "is there already and is no socket; remove it", str(path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        # 0: somebody listens; EAGAIN: somebody does and is busy.
        if caller.connect_ex(str(path)) in (0, errno.EAGAIN):
            raise OSError(errno.EADDRINUSE, "another daemon answers on it", str(path))
    path.unlink()


async def _read_reason(request: web.Request) -> str:
    """Return the body's ``reason``; an empty body has none."""
    return str((await read_body(request, REASON)).get("reason", ""))
