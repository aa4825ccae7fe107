"""Errors as ``application/problem+json`` (RFC 9457), also those that the HTTP library raises itself."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

from aiohttp import hdrs, web

from gpumesh.status.documents import encode

MEDIA_TYPE: Final = "application/problem+json"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = logging.getLogger(__name__)


class ProblemError(Exception):
    """A request that is answered with a problem: its HTTP status, what is wrong and what would be right."""

    def __init__(self, status: int, detail: str, *, kind: str = "", **extra: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind
        """A short stable word for programs, such as ``ambiguous``."""
        self.extra = extra


def problem_response(error: ProblemError) -> web.Response:
    """Return the response for a problem."""
    document: dict[str, Any] = {
        "type": f"urn:gpumesh:problem:{error.kind}" if error.kind else "about:blank",
        "title": HTTPStatus(error.status).phrase,
        "status": error.status,
        "detail": error.detail,
        **error.extra,
    }
    return web.Response(body=encode(document), status=error.status, content_type=MEDIA_TYPE)


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error into a problem; an unforeseen one is logged and answered 500 without its words."""
    try:
        return await handler(request)
    except ProblemError as error:
        return problem_response(error)
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        response = problem_response(
            ProblemError(
                error.status, f"{request.path} takes {allowed}; changes go through the control socket"
            )
        )
        response.headers[hdrs.ALLOW] = allowed
        return response
    except web.HTTPNotFound as error:
        is_described = any(item.canonical == "/openapi.json" for item in request.app.router.resources())
        hint = "; /openapi.json lists what there is" if is_described else " here"
        return problem_response(ProblemError(error.status, f"there is no {request.path}{hint}"))
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        return problem_response(ProblemError(error.status, error.reason))
    except Exception:  # noqa: BLE001 - logged with its trace; one bad answer must not end the connection
        _log.exception("%s %s failed", request.method, request.path)
        return problem_response(
            ProblemError(HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of gpumesh; its journal holds the trace")
        )
