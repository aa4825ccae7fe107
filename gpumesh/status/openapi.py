"""The OpenAPI 3.1 description, generated from the same table that mounts the routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gpumesh
from gpumesh.status.problem import MEDIA_TYPE
from gpumesh.status.routes import Parameter, Route

_PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


def openapi_document(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the description of the routes."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "gpumesh",
            "version": gpumesh.__version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "What one host knows of itself and its fleet; read-only.",
        },
        "paths": {route.path: {"get": _operation(route)} for route in routes},
        "components": {"schemas": {"Problem": _PROBLEM_SCHEMA}},
    }


def _operation(route: Route) -> dict[str, Any]:
    schema = {"type": "object"} if route.media_type == "application/json" else {"type": "string"}
    responses: dict[str, Any] = {
        "200": {"description": route.summary, "content": {route.media_type: {"schema": schema}}}
    }
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status, when in ((400, "A query key or value is wrong; the detail names it"), *route.problems):
        responses[str(status)] = {"description": when, "content": content}
    operation: dict[str, Any] = {
        "operationId": _operation_id(route.path),
        "summary": route.summary,
        "responses": responses,
    }
    if route.details:
        operation["description"] = route.details
    if route.parameters:
        operation["parameters"] = [_parameter(parameter) for parameter in route.parameters]
    return operation


def _operation_id(path: str) -> str:
    words = path.strip("/").replace("{", "").replace("}", "").replace(".", "/").split("/")
    return "_".join(word for word in words if word) or "page"


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.is_required or parameter.place == "path",
        "description": parameter.doc,
        "schema": {"type": "string"},
        "example": parameter.example,
    }
