"""Asking the daemon: reads over HTTP, changes over its Unix socket.

The standard library only, for a quick start.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode, urlsplit

from gpumesh.cli.problem import Document, ProblemError
from gpumesh.errors import RequestError, UnreachableError

ANSWER_DEADLINE_S: Final = 10.0
STREAM_SILENCE_S: Final = 45.0
"""Three keep-alives of the daemon missed."""
MAX_ANSWER_BYTES: Final = 64 << 20
_HINT: Final = "start it with `systemctl start gpumesh`; `journalctl -u gpumesh` says why it is not up"


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One message of the event stream."""

    name: str
    """``message`` for an event; otherwise a notice of the stream itself, ``dropped`` or ``gap``."""
    id: str
    data: Document


class DaemonClient:
    """The daemon's read-only face at ``url``; ``origin`` says where that came from, for errors."""

    def __init__(self, url: str, origin: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise RequestError(f"--api {url!r}: must be http://address:port")
        self._host, self._port = parts.hostname, parts.port or 80
        self._base = parts.path.rstrip("/")
        self.where = f"{url} ({origin})"
        """Where the daemon is looked for, and who said so."""

    def get(self, path: str, query: Iterable[tuple[str, str]] = ()) -> Document:
        """Return the JSON document at ``path``.

        Errors: :class:`UnreachableError`; :class:`ProblemError` if the daemon refused.
        """
        connection = http.client.HTTPConnection(self._host, self._port, timeout=ANSWER_DEADLINE_S)
        try:
            connection.request("GET", self._target(path, query), headers={"Accept": "application/json"})
            return _document(connection.getresponse())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def events(self, query: Iterable[tuple[str, str]], last_id: str = "") -> Iterator[StreamEvent]:
        """Yield events until the daemon ends the stream.

        Errors: :class:`UnreachableError` if it cannot be reached or falls silent; :class:`ProblemError`.
        """
        connection = http.client.HTTPConnection(self._host, self._port, timeout=STREAM_SILENCE_S)
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        try:
            connection.request("GET", self._target("/v1/events", query), headers=headers)
            response = connection.getresponse()
            if response.status != HTTPStatus.OK:
                _document(response)
            yield from _messages(response)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def _target(self, path: str, query: Iterable[tuple[str, str]]) -> str:
        encoded = urlencode(list(query))
        return f"{self._base}{path}" + (f"?{encoded}" if encoded else "")

    def _unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(f"no answer from the daemon at {self.where}: {_words(error)}\n  {_HINT}")


class ControlClient:
    """The daemon's control socket, where changes are taken."""

    def __init__(self, path: str) -> None:
        self._path = path

    def post(self, path: str, body: Mapping[str, object]) -> Document:
        """Send a change and return the answer.

        Errors: :class:`UnreachableError`, also where the socket's permissions say no; :class:`ProblemError`.
        """
        return self._ask("POST", path, json.dumps(body).encode())

    def get(self, path: str) -> Document:
        """Return what only those may see who may change things. Errors: as :meth:`post`."""
        return self._ask("GET", path, None)

    def _ask(self, method: str, path: str, data: bytes | None) -> Document:
        connection = _UnixConnection(self._path)
        try:
            connection.request(method, path, data, {"Content-Type": "application/json"})
            return _document(connection.getresponse())
        except PermissionError as error:
            raise UnreachableError(
                f"{self._path}: permission denied; join the group gpumesh "
                "(`sudo usermod -aG gpumesh $USER`, then log in again) or use sudo"
            ) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise UnreachableError(
                f"no answer from the daemon at {self._path}: {_words(error)}\n  {_HINT}"
            ) from error
        finally:
            connection.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=ANSWER_DEADLINE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _document(response: http.client.HTTPResponse) -> Document:
    data = response.read(MAX_ANSWER_BYTES + 1)
    if len(data) > MAX_ANSWER_BYTES:
        raise ValueError("the answer is larger than any fleet's")
    try:
        document = json.loads(data) if data else {}
    except ValueError as error:
        raise ValueError("something that is not gpumesh answers there") from error
    if not isinstance(document, dict):
        raise ValueError("something that is not gpumesh answers there")  # noqa: TRY004
    if response.status >= HTTPStatus.BAD_REQUEST:
        detail = str(document.get("detail") or response.reason)
        raise ProblemError(response.status, detail, document)
    return document


def _messages(response: http.client.HTTPResponse) -> Iterator[StreamEvent]:
    """Parse server-sent events as far as the daemon uses them: one data line a message."""
    name, last_id, data = "message", "", ""
    while line := response.readline():
        key, _, value = line.decode().rstrip("\n").partition(":")
        value = value.removeprefix(" ")
        if key == "event":
            name = value
        elif key == "id":
            last_id = value
        elif key == "data":
            data = value
        elif not key and not value:
            if data:
                yield StreamEvent(name, last_id, json.loads(data))
            name, data = "message", ""


def _words(error: Exception) -> str:
    if isinstance(error, socket.timeout):
        return f"nothing within {ANSWER_DEADLINE_S:.0f} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
