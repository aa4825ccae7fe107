"""The read-only HTTP face: the routes and what each answers with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

import gpumesh
from gpumesh.config import Config
from gpumesh.errors import RequestError
from gpumesh.mesh.events import KINDS
from gpumesh.placement.request import parse_request
from gpumesh.placement.rule import place
from gpumesh.status import documents
from gpumesh.status.exposition import CONTENT_TYPE
from gpumesh.status.guard import dress, host_name_guard
from gpumesh.status.lookup import find_host
from gpumesh.status.metrics import exposition
from gpumesh.status.openapi import openapi_document
from gpumesh.status.page import load_page
from gpumesh.status.problem import ProblemError, problems
from gpumesh.status.routes import Parameter, Route, mount
from gpumesh.status.source import StatusSource
from gpumesh.status.stream import stream_events

_PLACEMENT_PARAMETERS = (
    Parameter(
        "key", "Names the work: the same key gives the same answer on every host.", "job-17", is_required=True
    ),
    Parameter("gpus", "How many GPUs, all on one host.", "2"),
    Parameter("memory", "Free framebuffer needed on each GPU, with a unit.", "20GiB"),
    Parameter("model", "Part of the model's name, in any case.", "4080"),
    Parameter("capability", "Lowest CUDA compute capability.", "8.0"),
    Parameter("driver", "Lowest driver version.", "550.54"),
    Parameter("cuda", "Lowest CUDA version that the driver must support.", "12.4"),
    Parameter("label.*", "A label that the host must carry; may be given for several labels.", "2"),
    Parameter("avoid", "Host ids or names that must not be chosen; may be repeated.", "pc07"),
    Parameter("allow_degraded", "Whether healthy GPUs of a degraded host may be used.", "true"),
)
_LABEL_PREFIX: Final = "label."
_EVENT_PARAMETERS = (
    Parameter("since", "Begin with kept events: an age, an ISO 8601 instant, or start.", "10m"),
    Parameter("follow", "false ends the stream after the kept events.", "false"),
)
_HOST_PARAMETERS = (
    Parameter(
        "id", "A host's id, the start of it (4 characters or more), or its name.", "pc07", place="path"
    ),
)
_HOST_PROBLEMS = ((404, "There is no such host"), (409, "More than one host is meant; all are listed"))


def make_app(source: StatusSource, config: Config) -> web.Application:
    """Return the whole face over ``source``; the caller runs it, and may add routes of its own."""
    face = _Face(source)
    app = _bare_app(config)
    mount(app, face.routes)
    return _ending_streams(app, source)


def make_metrics_app(source: StatusSource, config: Config) -> web.Application:
    """Return an application with ``/metrics`` alone, for ``http.metrics_listen``."""
    face = _Face(source)
    app = _bare_app(config)
    mount(app, [route for route in face.routes if route.path == "/metrics"])
    return app


def _bare_app(config: Config) -> web.Application:
    guard: Any = host_name_guard(config.host.name)
    app = web.Application(middlewares=[problems, guard])
    app.on_response_prepare.append(dress)
    return app


def _ending_streams(app: web.Application, source: StatusSource) -> web.Application:
    async def end_streams(_app: web.Application) -> None:
        source.events().close()

    app.on_shutdown.append(end_streams)
    return app


class _Face:
    """The handlers; each takes one view and answers from it alone."""

    def __init__(self, source: StatusSource, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._started_at = clock()
        self._page = load_page()
        self.routes = self._table()
        self._openapi = documents.encode(openapi_document(self.routes))

    def _table(self) -> tuple[Route, ...]:
        return (
            Route("/", self._handle_page, "The fleet as a page for people", media_type="text/html"),
            Route("/v1/status", self._handle_status, "This host in full, with raw readings"),
            Route("/v1/fleet", self._handle_fleet, "All hosts as this host sees them"),
            Route("/v1/silences", self._handle_silences, "What an operator has silenced on this host"),
            Route("/v1/hosts/{id}", self._handle_host, "One host", _HOST_PARAMETERS, problems=_HOST_PROBLEMS),
            Route("/v1/gpus", self._handle_gpus, "All GPUs of the fleet"),
            Route(
                "/v1/placement",
                self._handle_placement,
                "Where a request should run, in which order to try, and why not elsewhere",
                _PLACEMENT_PARAMETERS,
            ),
            Route(
                "/v1/events",
                self._handle_events,
                "Events as they happen (server-sent events; Last-Event-ID resumes)",
                _EVENT_PARAMETERS,
                media_type="text/event-stream",
                problems=((503, "Too many clients follow already"),),
                details="; ".join(f"{kind}: {meaning}" for kind, meaning in KINDS.items()),
                is_stream=True,
            ),
            Route(
                "/metrics", self._handle_metrics, "Prometheus metrics, text format", media_type="text/plain"
            ),
            Route("/healthz", self._handle_healthz, "The daemon's event loop turns"),
            Route(
                "/readyz",
                self._handle_readyz,
                "This host takes new work",
                problems=((503, "It does not; the detail says why"),),
            ),
            Route("/openapi.json", self._handle_openapi, "This description"),
        )

    async def _handle_page(self, _request: web.Request) -> web.Response:
        response = web.Response(body=self._page.body, content_type="text/html", charset="utf-8")
        response.headers["Content-Security-Policy"] = self._page.policy
        return response

    async def _handle_status(self, _request: web.Request) -> web.Response:
        document = documents.status_document(self._source.view(), self._source.readings())
        is_ready, why_not = self._source.is_ready()
        identity = self._source.identity()
        document.update(
            epoch=identity.epoch,
            boot_id=identity.boot_id,
            version=gpumesh.__version__,
            ready=is_ready,
            not_ready_reason=why_not,
            uptime_s=round(self._clock() - self._started_at, 3),
        )
        return _json(document)

    async def _handle_fleet(self, _request: web.Request) -> web.Response:
        return _json(documents.fleet_document(self._source.view(), self._source.readings()))

    async def _handle_silences(self, _request: web.Request) -> web.Response:
        standing = self._source.silences()
        return _json({"silences": [documents.silence_document(item) for item in standing]})

    async def _handle_host(self, request: web.Request) -> web.Response:
        host = find_host(self._source.view(), request.match_info["id"])
        return _json(documents.host_document(host, self._source.readings()))

    async def _handle_gpus(self, _request: web.Request) -> web.Response:
        return _json(documents.gpus_document(self._source.view(), self._source.readings()))

    async def _handle_placement(self, request: web.Request) -> web.Response:
        try:
            wanted = parse_request(_placement_fields(request.query.items()))
        except RequestError as error:
            raise ProblemError(HTTPStatus.BAD_REQUEST, str(error), kind="malformed-request") from error
        view = self._source.view()
        return _json(documents.decision_document(place(wanted, view), view))

    async def _handle_events(self, request: web.Request) -> web.StreamResponse:
        return await stream_events(request, self._source.events())

    async def _handle_metrics(self, _request: web.Request) -> web.Response:
        body = exposition(self._source)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def _handle_healthz(self, _request: web.Request) -> web.Response:
        return _json({"status": "alive"})

    async def _handle_readyz(self, _request: web.Request) -> web.Response:
        is_ready, why_not = self._source.is_ready()
        if not is_ready:
            raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, why_not or "not ready", kind="not-ready")
        return _json({"status": "ready"})

    async def _handle_openapi(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._openapi, content_type="application/json")


def _placement_fields(query: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Turn the outside names into the request's: ``label.room=2`` is a label, ``avoid`` an anti-affinity."""
    for key, value in query:
        if key.startswith(_LABEL_PREFIX):
            yield "label", f"{key[len(_LABEL_PREFIX) :]}={value}"
        else:
            yield "anti_affinity" if key == "avoid" else key, value


def _json(document: documents.Document) -> web.Response:
    return web.Response(body=documents.encode(document), content_type="application/json")
