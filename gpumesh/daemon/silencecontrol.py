"""Silences over the control socket: made and ended. Reading them takes no right: see ``/v1/silences``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, Protocol, TypeVar

from aiohttp import web

from gpumesh.daemon.controlbody import read_body
from gpumesh.errors import RequestError
from gpumesh.health.silences import Silence
from gpumesh.status.documents import silence_document
from gpumesh.status.problem import ProblemError

T = TypeVar("T")

_WANTED: Final[Mapping[str, type]] = {"check": str, "gpu": str, "for_s": float, "reason": str}
_ENDED: Final[Mapping[str, type]] = {"check": str, "gpu": str}


class Silenced(Protocol):
    """Whose checks can be silenced. Errors of both changes: RequestError."""

    def silence(self, check: str, gpu: str, for_s: float, reason: str) -> Silence:
        """Silence a check; ``gpu`` is empty, ``host``, or a card's UUID, its start or index."""
        ...

    def end_silence(self, check: str, gpu: str) -> None:
        """End a silence before its time."""
        ...


def add_silence_routes(app: web.Application, silenced: Silenced) -> None:
    """Add ``/v1/silence`` and ``/v1/unsilence`` to the control socket's application."""

    async def silence(request: web.Request) -> web.Response:
        body = await read_body(request, _WANTED)
        reason = str(body.get("reason", "")).strip()
        if not body.get("check") or "for_s" not in body or not reason:
            raise ProblemError(HTTPStatus.BAD_REQUEST, "check, for_s and reason must be given")
        made = _or_problem(
            lambda: silenced.silence(body["check"], body.get("gpu", ""), float(body["for_s"]), reason)
        )
        return web.json_response(silence_document(made))

    async def unsilence(request: web.Request) -> web.Response:
        body = await read_body(request, _ENDED)
        _or_problem(lambda: silenced.end_silence(body.get("check", ""), body.get("gpu", "")))
        return web.json_response({"ended": True})

    app.router.add_post("/v1/silence", silence)
    app.router.add_post("/v1/unsilence", unsilence)


def _or_problem(change: Callable[[], T]) -> T:
    try:
        return change()
    except RequestError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, str(error), kind="malformed-request") from error
