"""What stands before every handler: who may ask by which name, and what every answer carries."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web

from gpumesh.status.problem import Handler, ProblemError

_HOST: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^:\[\]]+))(?::\d{1,5})?")


def host_name_guard(own_name: str) -> Callable[[web.Request, Handler], object]:
    """Return a middleware that refuses foreign host names on loopback with 421.

    A web page whose name was rebound to 127.0.0.1 would otherwise read this host's state through the
    visitor's browser. An address, ``localhost`` and the host's own names are what people type; a request
    without a Host header is no browser's.
    """
    names = {"localhost", own_name.lower(), socket.gethostname().lower()} - {""}

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get(hdrs.HOST)
        if given is not None and _is_on_loopback(request) and not _is_own(given, names):
            raise ProblemError(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"this is not {given}; ask by address or as localhost",
                kind="foreign-host",
            )
        return await handler(request)

    return guard


async def dress(_request: web.Request, response: web.StreamResponse) -> None:
    """Set the headers of every answer: never cached, never sniffed, no versions of what serves it."""
    response.headers[hdrs.SERVER] = "gpumesh"
    response.headers.setdefault(hdrs.CACHE_CONTROL, "no-store")
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"


def _is_on_loopback(request: web.Request) -> bool:
    name = request.transport.get_extra_info("sockname") if request.transport else None
    if not isinstance(name, tuple):  # the control socket: no browser reaches it
        return False
    return _is_loopback(str(name[0]))


def _is_loopback(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def _is_own(given: str, names: set[str]) -> bool:
    match = _HOST.fullmatch(given.strip())
    if match is None:
        return False
    if match["v6"]:
        return True
    host = match["host"].lower().rstrip(".")
    return host in names or host.endswith(".localhost") or _is_address(host)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
