from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from tests.cli.conftest import Call
from tests.samples.fleet import SampleSource


def test_all_gpus_as_they_were(api: str, call: Call, golden: Callable[[str, str], None]) -> None:
    golden("gpus.txt", call("gpus", "--api", api).out)


def test_json_lists_every_card(api: str, call: Call) -> None:
    assert len(json.loads(call("gpus", "--json", "--api", api).out)["gpus"]) == 8


def test_a_fleet_without_gpus_says_where_to_look(api: str, call: Call, source: SampleSource) -> None:
    hosts = tuple(replace(host, health=None) for host in source.shown.hosts)
    source.shown = replace(source.shown, hosts=hosts)
    assert "gpumesh fleet" in call("gpus", "--api", api).out
