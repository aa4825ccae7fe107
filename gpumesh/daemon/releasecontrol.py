"""Letting go of the driver over the control socket, and taking it up again."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, Protocol

from aiohttp import web

from gpumesh.daemon.controlbody import read_body
from gpumesh.errors import RequestError
from gpumesh.status.documents import instant
from gpumesh.status.problem import ProblemError

_WANTED: Final[Mapping[str, type]] = {"for_s": float, "reason": str}
DEFAULT_FOR_S: Final = 15 * 60.0


class Releasing(Protocol):
    """Who holds the driver. Errors of both: RequestError."""

    async def release(self, for_s: float, reason: str) -> tuple[bool, float]:
        """Let go of the driver; return whether it is let go of by now, and until when (Unix seconds)."""
        ...

    def end_release(self) -> None:
        """Take it up again before that."""
        ...


def add_release_routes(app: web.Application, releasing: Releasing) -> None:
    """Add ``/v1/release`` and ``/v1/unrelease`` to the control socket's application."""

    async def release(request: web.Request) -> web.Response:
        body = await read_body(request, _WANTED)
        for_s = float(body.get("for_s", DEFAULT_FOR_S))
        try:
            is_released, until = await releasing.release(for_s, str(body.get("reason", "")).strip())
        except RequestError as error:
            raise _malformed(error) from error
        return web.json_response({"released": is_released, "until": instant(until)})

    async def unrelease(request: web.Request) -> web.Response:
        await read_body(request, {})
        try:
            releasing.end_release()
        except RequestError as error:
            raise _malformed(error) from error
        return web.json_response({"ended": True})

    app.router.add_post("/v1/release", release)
    app.router.add_post("/v1/unrelease", unrelease)


def _malformed(error: RequestError) -> ProblemError:
    return ProblemError(HTTPStatus.BAD_REQUEST, str(error), kind="malformed-request")
