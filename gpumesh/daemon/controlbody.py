"""Reading what the control socket is asked: a small JSON object, each key of its type, or a clear refusal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from gpumesh.status.problem import ProblemError

MAX_TEXT: Final = 200
BODY_S: Final = 5.0
REASON: Final[Mapping[str, type]] = {"reason": str}


async def read_body(request: web.Request, known: Mapping[str, type]) -> dict[str, Any]:
    """Return the body's object; an empty body is an empty object.

    Errors: ProblemError for anything that is not an object of ``known`` keys and types, or comes too slowly.
    """
    try:
        body = await asyncio.wait_for(request.read(), BODY_S)
    except asyncio.TimeoutError:
        raise ProblemError(HTTPStatus.REQUEST_TIMEOUT, f"no whole body within {BODY_S:g} s") from None
    if not body:
        return {}
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from error
    if not isinstance(document, dict) or set(document) - set(known):
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"the body must be an object of {', '.join(known)}")
    for key, value in document.items():
        _check(key, value, known[key])
    return document


def _check(key: str, value: Any, wanted: type) -> None:
    if wanted is str and (not isinstance(value, str) or len(value) > MAX_TEXT or not value.isprintable()):
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, f"{key} must be one line of text, at most {MAX_TEXT} characters"
        )
    if wanted is float and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"{key} must be a number of seconds")
