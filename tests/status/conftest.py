from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from gpumesh.config import Config
from gpumesh.status.app import make_app
from tests.samples.fleet import SampleSource


@dataclass
class Answer:
    """One HTTP answer, read in full."""

    status: int
    headers: Mapping[str, str]
    text: str
    document: Any


@dataclass
class Face:
    """The status application, served on a free loopback port."""

    url: str
    source: SampleSource
    client: aiohttp.ClientSession

    async def get(self, path: str, *, method: str = "GET", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.request(method, self.url + path, headers=named) as response:
            text = await response.text()
            is_json = response.content_type in {"application/json", "application/problem+json"}
            document = await response.json(content_type=None) if is_json and text else None
            return Answer(response.status, response.headers, text, document)


@pytest.fixture
def source() -> SampleSource:
    return SampleSource()


@asynccontextmanager
async def serving(app: web.Application, source: SampleSource) -> AsyncIterator[Face]:
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        async with aiohttp.ClientSession() as client:
            yield Face(f"http://127.0.0.1:{port}", source, client)
    finally:
        await asyncio.wait_for(runner.cleanup(), 10)


@pytest_asyncio.fixture
async def face(source: SampleSource) -> AsyncIterator[Face]:
    async with serving(make_app(source, Config()), source) as served:
        yield served
