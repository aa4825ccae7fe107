"""``/v1/events``: server-sent events (WHATWG HTML, section 9.2) from the feed."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import datetime, timezone
from http import HTTPStatus
from typing import Final

from aiohttp import web

from gpumesh.config.fields import parse_duration
from gpumesh.errors import RejectedError
from gpumesh.status.documents import encode, event_document
from gpumesh.status.feed import EventFeed, NumberedEvent, Replay, Subscription
from gpumesh.status.problem import ProblemError

KEEP_ALIVE_S: Final = 15.0
WRITE_DEADLINE_S: Final = 10.0
_OPENING: Final = b"retry: 3000\n\n"
_KEEP_ALIVE: Final = b": keep-alive\n\n"


async def stream_events(request: web.Request, feed: EventFeed) -> web.StreamResponse:
    """Answer with what the client is owed, then each event as it comes, until either side goes.

    Errors: :class:`ProblemError` 400 for a malformed query, 503 when too many clients follow already.
    """
    replay = _owed(request, feed)
    is_followed = _flag(request, "follow", default=True)
    try:
        subscription = feed.subscribe(replay.events)
    except RejectedError as error:
        raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, f"{error.detail}; try again later") from error
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    response.headers["X-Accel-Buffering"] = "no"
    try:
        if not is_followed:
            subscription.end()
        await response.prepare(request)
        await _pump(response, subscription, replay)
    except asyncio.TimeoutError:  # the client does not read: it finds its place again by Last-Event-ID
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:
        pass
    finally:
        subscription.close()
    return response


async def _pump(response: web.StreamResponse, subscription: Subscription, replay: Replay) -> None:
    await _write(response, _OPENING)
    if replay.has_gap:
        await _write(response, _notice("gap", "some events since your last one are no longer kept"))
    while True:
        event = await subscription.next_event(KEEP_ALIVE_S)
        if event is not None:
            await _write(response, _message(event))
        elif subscription.is_overrun:
            await _write(
                response, _notice("dropped", "you did not keep up; connect again to go on from there")
            )
            return
        elif subscription.is_ended:
            return
        else:
            await _write(response, _KEEP_ALIVE)


async def _write(response: web.StreamResponse, data: bytes) -> None:
    await asyncio.wait_for(response.write(data), WRITE_DEADLINE_S)


def _message(event: NumberedEvent) -> bytes:
    return b"id: " + event.id.encode() + b"\ndata: " + encode(event_document(event)) + b"\n"


def _notice(kind: str, reason: str) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'reason': reason})}\n\n".encode()


def _owed(request: web.Request, feed: EventFeed) -> Replay:
    last_id = request.headers.get("Last-Event-ID", "")
    if last_id:
        return feed.replay(last_id)
    since = request.query.get("since")
    if since is None:
        return Replay((), has_gap=False)
    start = _start(since)
    return Replay(tuple(item for item in feed.recent() if item.event.time >= start), has_gap=False)


def _start(since: str) -> float:
    """Return the Unix seconds meant by an age (``10m``), an instant (ISO 8601) or ``start``."""
    if since == "start":
        return 0.0
    try:
        return time.time() - parse_duration(since)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(since.replace("Z", "+00:00"))
    except ValueError as error:
        raise ProblemError(
            HTTPStatus.BAD_REQUEST,
            f"since={since!r} must be an age such as 10m, an instant such as 2026-01-31T12:00:00Z, or start",
            kind="malformed-value",
        ) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def _flag(request: web.Request, name: str, *, default: bool) -> bool:
    value = request.query.get(name)
    if value is None:
        return default
    if value not in {"true", "false"}:
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, f"{name}={value!r} must be true or false", kind="malformed-value"
        )
    return value == "true"
