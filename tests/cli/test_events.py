from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from gpumesh.cli.client import DaemonClient
from gpumesh.model import Event
from tests.cli.conftest import Call
from tests.samples.fleet import NOW, SELF_ID, SampleSource


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def happened(source: SampleSource) -> None:
    source.feed.publish(Event("host.joined", NOW - 60, SELF_ID, "pc05", "host", "joined from 10.0.0.5:7977"))
    source.feed.publish(Event("gpu.lost", NOW, SELF_ID, "pc02", "gpu/GPU-2", "GPU is lost (NVML 15)"))


@pytest.mark.usefixtures("utc", "happened")
def test_events_as_they_were(api: str, call: Call, golden: Callable[[str, str], None]) -> None:
    outcome = call("events", "--no-follow", "--api", api)
    assert outcome.code == 0
    golden("events.txt", outcome.out)


@pytest.mark.usefixtures("happened")
def test_json_is_one_object_a_line(api: str, call: Call) -> None:
    lines = call("events", "--json", "--no-follow", "--since", "start", "--api", api).out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["7-1", "7-2"]


@pytest.mark.usefixtures("happened")
def test_since_leaves_older_events_out(api: str, call: Call) -> None:
    since = "2027-01-15T07:59:30Z"
    out = call("events", "--json", "--no-follow", "--since", since, "--api", api).out
    assert [json.loads(line)["kind"] for line in out.splitlines()] == ["gpu.lost"]


def test_a_malformed_since_is_a_usage_error(api: str, call: Call) -> None:
    outcome = call("events", "--since", "yesterday", "--api", api)
    assert outcome.code == 2
    assert "such as 10m" in outcome.err


@pytest.mark.usefixtures("happened")
def test_following_goes_on_after_the_stream_ends_and_repeats_nothing(
    api: str, call: Call, source: SampleSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon ends the stream after each event; the third connection is interrupted."""
    rounds = []

    def pause(_seconds: float) -> None:
        rounds.append(1)
        if len(rounds) == 3:
            raise KeyboardInterrupt
        source.feed.publish(Event("host.left", NOW, SELF_ID, "pc04", "host", f"goodbye {len(rounds)}"))

    monkeypatch.setattr(time, "sleep", pause)
    original = DaemonClient.events

    def ending(client: DaemonClient, query: list[tuple[str, str]], last_id: str = "") -> object:
        return original(client, [*query, ("follow", "false")], last_id)

    monkeypatch.setattr(DaemonClient, "events", ending)
    outcome = call("events", "--json", "--api", api)
    assert outcome.code == 0
    assert [json.loads(line)["id"] for line in outcome.out.splitlines()] == ["7-1", "7-2", "7-3", "7-4"]


def test_without_a_daemon_following_does_not_begin(call: Call) -> None:
    assert call("events", "--api", "http://127.0.0.1:1").code == 3
