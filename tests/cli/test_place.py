from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Call

Golden = Callable[[str, str], None]


def test_where_it_runs_as_it_was(api: str, call: Call, golden: Golden) -> None:
    outcome = call(
        "place", "--api", api, "--key", "job", "--memory", "10GiB", "--model", "4080", "--label", "room=2"
    )
    assert outcome.code == 0
    golden("place.txt", outcome.out)


def test_nowhere_is_a_no_with_a_reason_for_each_host(api: str, call: Call, golden: Golden) -> None:
    outcome = call("place", "--api", api, "--key", "job", "--gpus", "2", "--memory", "20GiB", width=100)
    assert outcome.code == 1
    golden("place-nowhere.txt", outcome.out)


def test_all_options_reach_the_rule(api: str, call: Call) -> None:
    options = ["--gpus", "1", "--capability", "8.0", "--driver", "550.1", "--cuda", "12.1", "--no-degraded"]
    options += ["--avoid", "pc04", "--avoid", "pc05", "--label", "room=2", "--label", "tier=a=b"]
    document = json.loads(call("place", "--json", "--api", api, "--key", "a b&c", *options).out)
    assert document["request"] == {
        "key": "a b&c",
        "gpus": 1,
        "memory_bytes": 0,
        "model": "",
        "capability": "8.0",
        "driver": "550.1",
        "cuda": "12.1",
        "labels": {"room": "2", "tier": "a=b"},
        "avoid": ["pc04", "pc05"],
        "allow_degraded": False,
    }


@pytest.mark.parametrize(
    ("options", "word"),
    [(["--memory", "20"], "memory"), (["--gpus", "none"], "gpus"), (["--label", "x"], "--label")],
)
def test_a_malformed_request_is_a_usage_error(api: str, call: Call, options: list[str], word: str) -> None:
    outcome = call("place", "--api", api, "--key", "k", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert word in outcome.err
