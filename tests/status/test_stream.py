from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from gpumesh.model import Event
from gpumesh.status import stream
from gpumesh.status.feed import BACKLOG_EVENTS, MAX_SUBSCRIBERS
from tests.samples.fleet import SampleSource
from tests.status.conftest import Face


def event(number: int, time: float = 1_800_000_000.0) -> Event:
    return Event(
        "host.failed", time, "id", "pc03", "host", f"event {number}", {"from": "suspect", "to": "failed"}
    )


async def next_message(response: aiohttp.ClientResponse) -> dict[str, str]:
    """Read one message: its fields, comments left aside."""
    fields: dict[str, str] = {}
    while True:
        line = (await asyncio.wait_for(response.content.readline(), 10)).decode().rstrip("\n")
        if not line:
            if response.content.at_eof() or fields.keys() - {"retry"}:
                return fields
            fields = {}
            continue
        key, _, value = line.partition(": ")
        if key:
            fields[key] = value


async def follow(face: Face, query: str = "", **headers: str) -> aiohttp.ClientResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await face.client.get(f"{face.url}/v1/events{query}", headers=named)


async def test_events_arrive_with_id_and_all_their_fields(face: Face, source: SampleSource) -> None:
    async with await follow(face) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        source.feed.publish(event(1))
        message = await next_message(response)
    assert message["id"] == "7-1"
    document: dict[str, Any] = json.loads(message["data"])
    assert document["kind"] == "host.failed"
    assert document["time"] == "2027-01-15T08:00:00.000Z"
    assert document["fields"] == {"from": "suspect", "to": "failed"}


async def test_a_returning_client_is_given_what_it_missed(face: Face, source: SampleSource) -> None:
    for number in range(1, 4):
        source.feed.publish(event(number))
    async with await follow(face, Last_Event_ID="7-1") as response:
        ids = [(await next_message(response))["id"] for _ in range(2)]
    assert ids == ["7-2", "7-3"]


async def test_kept_events_can_be_asked_for_without_following(face: Face, source: SampleSource) -> None:
    source.feed.publish(event(1, time=1000.0))
    source.feed.publish(event(2))
    everything = await face.get("/v1/events?since=start&follow=false")
    assert everything.text.count("\ndata: ") == 2
    recent = await face.get("/v1/events?since=2020-01-01T00:00:00Z&follow=false")
    assert recent.text.count("\ndata: ") == 1
    assert (await face.get("/v1/events?follow=false")).text == "retry: 3000\n\n"


@pytest.mark.parametrize("query", ["since=yesterday", "follow=maybe", "sinse=10m"])
async def test_a_malformed_query_is_refused(face: Face, query: str) -> None:
    assert (await face.get(f"/v1/events?{query}")).status == 400


async def test_a_client_that_does_not_keep_up_is_told_and_let_go(face: Face, source: SampleSource) -> None:
    async with await follow(face) as response:
        for number in range(BACKLOG_EVENTS + 1):  # in one step of the loop: nothing can be sent in between
            source.feed.publish(event(number))
        message = await next_message(response)
        assert message["event"] == "dropped"
        assert await next_message(response) == {}
    assert source.feed.num_overrun == 1


async def test_more_clients_than_allowed_are_asked_to_come_later(face: Face, source: SampleSource) -> None:
    places = [source.feed.subscribe() for _ in range(MAX_SUBSCRIBERS)]
    answer = await face.get("/v1/events")
    assert answer.status == 503
    for place in places:
        place.close()
    async with await follow(face) as response:
        assert response.status == 200


async def test_a_gap_is_told_of(face: Face, source: SampleSource) -> None:
    for number in range(1, 1030):
        source.feed.publish(event(number))
    async with await follow(face, Last_Event_ID="7-1") as response:
        assert (await next_message(response))["event"] == "gap"
        assert (await next_message(response))["id"] == "7-6"


async def test_a_client_that_never_reads_is_let_go(
    face: Face, source: SampleSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "WRITE_DEADLINE_S", 0.2)
    host, port = face.url.removeprefix("http://").split(":")
    _reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(f"GET /v1/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    large = Event("host.state", 1.0, "id", "pc01", "host", "x" * 100_000)
    await asyncio.wait_for(until(lambda: source.feed.num_subscribers == 1), 20)
    while source.feed.num_subscribers:  # at the latest when the kernel's buffers are full
        source.feed.publish(large)
        await asyncio.sleep(0.01)
    writer.transport.abort()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - the feed tells nobody of new subscribers
        await asyncio.sleep(0.01)
