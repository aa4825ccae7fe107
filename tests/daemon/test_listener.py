"""Listeners under those who hold connections, send rubbish, or stand where the socket should be."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from gpumesh.daemon.control import make_control_app, serve_control
from gpumesh.daemon.doorkeeper import Doorkeeper
from gpumesh.daemon.listener import Listener
from gpumesh.health.silences import Silence
from gpumesh.model import Admission

pytestmark = pytest.mark.timeout(60)

LIMIT = 8
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: local"

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Owner:
    """Takes the operator's word."""

    def __init__(self) -> None:
        self.words: list[Admission] = []

    def set_operator_admission(self, admission: Admission, reason: str) -> None:
        self.words.append(admission)

    def begin_leave(self) -> None:
        raise AssertionError("nobody asked for it")

    def silence(self, check: str, gpu: str, for_s: float, reason: str) -> Silence:
        raise AssertionError("nobody asked for it")

    def end_silence(self, check: str, gpu: str) -> None:
        raise AssertionError("nobody asked for it")


@pytest.fixture
async def path(tmp_path: Path) -> AsyncIterator[Path]:
    async def greet(_request: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/", greet)
    listener = Listener(app, LIMIT)
    place = tmp_path / "http"
    await listener.open(lambda keeper: asyncio.get_running_loop().create_unix_server(keeper, str(place)))
    yield place
    await listener.close()


async def say(path: Path, words: bytes) -> Connection:
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(words)
    return reader, writer


async def hang_up(connections: list[Connection]) -> None:
    for _, writer in connections:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def ask(path: Path) -> bytes:
    connection = await say(path, WHOLE)
    answer = await connection[0].readuntil(b"hello")
    await hang_up([connection])
    return answer


async def test_those_who_never_finish_asking_shut_nobody_out(path: Path) -> None:
    idle = [await say(path, HALF) for _ in range(5 * LIMIT)]
    assert (await ask(path)).startswith(b"HTTP/1.1 200")
    ended = [asyncio.create_task(reader.read()) for reader, _ in idle]
    _, waiting = await asyncio.wait(ended, timeout=1)
    assert len(waiting) < LIMIT, "the others gave way"
    for task in waiting:
        task.cancel()
    await asyncio.gather(*ended, return_exceptions=True)
    await hang_up(idle)


async def test_who_never_finishes_asking_is_hung_up_on(tmp_path: Path) -> None:
    keeper = Doorkeeper(asyncio.Protocol, LIMIT, patience_s=0.05)
    server = await asyncio.get_running_loop().create_unix_server(keeper, str(tmp_path / "door"))
    idle = await say(tmp_path / "door", HALF)
    assert await asyncio.wait_for(idle[0].read(), 30) == b""
    assert len(keeper) == 0
    await hang_up([idle])
    server.close()
    await server.wait_closed()


async def test_who_was_answered_may_stay(path: Path) -> None:
    kept = [await say(path, WHOLE) for _ in range(LIMIT)]
    for reader, _ in kept:
        await reader.readuntil(b"hello")
    refused = await say(path, WHOLE)
    assert await asyncio.gather(refused[0].read(), return_exceptions=True)
    for reader, writer in kept:
        writer.write(WHOLE)
        await reader.readuntil(b"hello")
    await hang_up([*kept, refused])
    assert (await ask(path)).startswith(b"HTTP/1.1 200")


async def test_what_is_not_http_leaves_no_line_in_the_log(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        for rubbish in (
            b"\x16\x03\x01\x02\x00\r\n\r\n",
            b"BREW / HTTP/1.1\r\n\r\n",
            b"GET /" + b"a" * 20_000,
        ):
            connection = await say(path, rubbish)
            assert (await connection[0].read(12)).startswith(b"HTTP/1")
            await hang_up([connection])
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


async def test_a_socket_left_behind_is_replaced_and_given_to_the_group(tmp_path: Path) -> None:
    place = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place))
    listener = await serve_control(make_control_app(Owner()), place)
    assert place.stat().st_mode & 0o777 == 0o660
    await listener.close()


async def test_a_socket_that_answers_is_not_taken_over(tmp_path: Path) -> None:
    place = tmp_path / "control.sock"
    first = await serve_control(make_control_app(Owner()), place)
    with pytest.raises(OSError, match="another daemon answers"):
        await serve_control(make_control_app(Owner()), place)
    connection = await say(place, b"GET /v1/none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert (await connection[0].read()).startswith(b"HTTP/1.1 404")
    await hang_up([connection])
    await first.close()


@pytest.mark.parametrize("kind", ["file", "link", "directory"])
async def test_what_is_no_socket_is_left_alone_and_named(tmp_path: Path, kind: str) -> None:
    place, precious = tmp_path / "control.sock", tmp_path / "precious"
    precious.write_text("data")
    if kind == "file":
        place.write_text("data")
    elif kind == "link":
        place.symlink_to(precious)
    else:
        place.mkdir()
    with pytest.raises(FileExistsError, match="is no socket"):
        await serve_control(make_control_app(Owner()), place)
    assert precious.read_text() == "data"
