"""The table of routes as data: mounting, the check of query keys and the OpenAPI page are made of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from gpumesh.errors import did_you_mean
from gpumesh.status.problem import Handler, ProblemError


@dataclass(frozen=True, slots=True)
class Parameter:
    """One query or path parameter."""

    name: str
    """A name ending in ``.*`` stands for all that begin so, such as ``label.*``."""
    doc: str
    example: str
    place: str = "query"
    is_required: bool = False

    def takes(self, key: str) -> bool:
        """Say whether a query key is this parameter."""
        if self.name.endswith("*"):
            return key.startswith(self.name[:-1]) and len(key) >= len(self.name)
        return key == self.name


@dataclass(frozen=True, slots=True)
class Route:
    """One GET route."""

    path: str
    handler: Handler
    summary: str
    parameters: tuple[Parameter, ...] = ()
    media_type: str = "application/json"
    problems: tuple[tuple[int, str], ...] = ()
    """Statuses of its problems and when each occurs."""
    is_stream: bool = False
    details: str = ""
    """More than the summary says, for the OpenAPI page."""


def check_query(keys: Iterable[str], parameters: Iterable[Parameter]) -> None:
    """Refuse a query key that the route does not know, naming the nearest one.

    Errors: :class:`ProblemError` 400.
    """
    known = [parameter for parameter in parameters if parameter.place == "query"]
    for key in keys:
        if any(parameter.takes(key) for parameter in known):
            continue
        names = [parameter.name for parameter in known]
        all_names = "known: " + ", ".join(names) if names else "this resource takes none"
        hint = did_you_mean(key, names, all_names)
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, f"unknown query key {key!r}; {hint}", kind="unknown-query-key"
        )


def mount(app: web.Application, routes: Iterable[Route]) -> None:
    """Add the routes to the application, each behind the check of its query keys."""
    for route in routes:
        app.router.add_get(route.path, _checked(route), allow_head=not route.is_stream)


def _checked(route: Route) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        check_query(request.query, route.parameters)
        return await route.handler(request)

    return handler
