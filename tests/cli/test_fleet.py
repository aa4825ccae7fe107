from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from gpumesh.cli import fleet
from gpumesh.cli.session import Session
from gpumesh.cli.terminal import Terminal
from gpumesh.model import View
from gpumesh.status.documents import fleet_document
from tests.cli.conftest import Call
from tests.samples.fleet import HEALTHY, NOW, SampleSource, host, sample_view

Golden = Callable[[str, str], None]


def test_the_fleet_as_it_was(api: str, call: Call, golden: Golden) -> None:
    outcome = call("fleet", "--api", api)
    assert outcome.code == 0
    golden("fleet.txt", outcome.out)


@pytest.mark.parametrize("width", [120, 80, 40])
def test_the_fleet_fits_the_terminal(api: str, call: Call, golden: Golden, width: int) -> None:
    outcome = call("fleet", "--api", api, width=width)
    assert max(len(line) for line in outcome.out.splitlines()) <= width
    golden(f"fleet-{width}.txt", outcome.out)


def test_json_is_the_daemons_own_document(api: str, call: Call, source: SampleSource) -> None:
    assert json.loads(call("--json", "fleet", "--api", api).out) == fleet_document(source.view())


def test_colours_only_where_they_are_taken(api: str, call: Call) -> None:
    assert "\x1b" not in call("fleet", "--api", api).out
    assert "\x1b[32mready\x1b[0m" in call("fleet", "--api", api, color=True).out


def test_hosts_are_ordered_as_people_count() -> None:
    view = sample_view()
    names = ("pc10", "pc9", "pc1", "Pc2")
    hosts = tuple(
        replace(host(i + 1), facts=replace(view.hosts[0].facts, name=name))  # type: ignore[type-var]
        for i, name in enumerate(names)
    )
    out = io.StringIO()
    fleet.draw_fleet(Terminal(out, out, None, False), fleet_document(replace(view, hosts=hosts)), NOW)
    shown = [line.split()[0].rstrip("*") for line in out.getvalue().splitlines()[4:]]
    assert shown == ["pc1", "Pc2", "pc9", "pc10"]


def test_a_peers_name_cannot_steer_the_terminal() -> None:
    view = sample_view()
    evil = replace(host(1), facts=replace(view.hosts[0].facts, name="pc\x1b[2J\n"), reason="a\x1b]0;b\x07")  # type: ignore[type-var]
    out = io.StringIO()
    document = fleet_document(View(view.self_id, 0.0, "f\x1b", (evil,)))
    fleet.draw_fleet(Terminal(out, out, 80, False), document, NOW)
    assert "\x1b" not in out.getvalue()
    assert "\x07" not in out.getvalue()


def test_mass_failure_is_said(api: str, call: Call, source: SampleSource) -> None:
    source.shown = replace(source.shown, mass_failure=True)
    assert "this host suspects itself" in call("fleet", "--api", api).out


def test_watching_draws_until_interrupted(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out, pauses = io.StringIO(), []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", pause)
    session = Session(Terminal(out, out, 100, False), None, api, False, clock=lambda: NOW)
    assert fleet.watch(session) == 0
    assert out.getvalue().count("seen by pc01") == 2
    assert out.getvalue().startswith("\x1b[?1049h")
    assert out.getvalue().endswith("\x1b[?1049l")


def test_a_host_that_differs_from_most_of_the_fleet_is_named_with_what_most_have() -> None:
    view = sample_view()
    hosts = tuple(
        replace(host(number), health=replace(HEALTHY, driver_version=driver))
        for number, driver in enumerate(("550.54.14", "535.183.01", "550.54.14"), 1)
    )
    for width in (None, 60):
        out = io.StringIO()
        document = fleet_document(replace(view, hosts=hosts))
        fleet.draw_fleet(Terminal(out, out, width, False), document, NOW)
        text = " ".join(out.getvalue().split())
        assert text.count("differs from most") == 1
        assert "differs from most: driver 535.183.01, not 550.54.14 as 2 of 3" in text
        assert text.index("pc02") < text.index("differs") < text.index("pc03")
