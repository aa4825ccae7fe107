from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web

from gpumesh.cli.main import parse, run
from gpumesh.cli.session import Session
from gpumesh.cli.terminal import Terminal
from gpumesh.config import Config
from gpumesh.status.app import make_app
from tests.samples.fleet import NOW, SampleSource


@dataclass(frozen=True)
class Outcome:
    """What one call of the command line left."""

    code: int
    out: str
    err: str


@contextmanager
def served(app: web.Application, socket_path: Path | None = None) -> Iterator[str]:
    """Run the application in a thread of its own; yields its URL (empty on a Unix socket)."""
    loop, started, urls = asyncio.new_event_loop(), threading.Event(), [""]
    stop = asyncio.Event()

    async def serve() -> None:
        runner = web.AppRunner(app)
        await runner.setup()
        if socket_path is None:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            urls[0] = f"http://127.0.0.1:{runner.addresses[0][1]}"
        else:
            await web.UnixSite(runner, str(socket_path)).start()
        started.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), name="served")
    thread.start()
    try:
        assert started.wait(30)
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()


@pytest.fixture
def source() -> SampleSource:
    return SampleSource()


@pytest.fixture
def api(source: SampleSource) -> Iterator[str]:
    """The URL of a running daemon's face."""
    with served(make_app(source, Config())) as url:
        yield url


Call = Callable[..., Outcome]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Call the command line as a person would, at a fixed time, with a configuration of its own."""
    config = tmp_path / "gpumesh.toml"
    config.write_text(f'[control]\nsocket = "{tmp_path}/control.sock"\n[http]\nlisten = "127.0.0.1:1"\n')

    def invoke(*argv: str, width: int | None = None, color: bool = False) -> Outcome:
        out, err = io.StringIO(), io.StringIO()
        command, options = parse(("--config", str(config), *argv))
        terminal = Terminal(out, err, width, color)
        session = Session(terminal, config, options.api, options.json, clock=lambda: NOW)
        code = run(command, options, session)
        return Outcome(code, out.getvalue(), err.getvalue())

    return invoke
