"""What an operator does to keep a host: checks with and without its daemon, silences, the baseline."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpumesh.cli.demofleet import DemoFleet, DemoHost
from gpumesh.errors import UnreachableError
from gpumesh.health import baseline

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]
PATIENCE_S = 45.0


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[DemoFleet]:
    made = DemoFleet(tmp_path)
    made.add("a", ("h100", "rtx-4080-super"))
    yield made
    made.stop()


def gpumesh(host: DemoHost, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpumesh.cli.main", "--config", str(host.config_path), *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def until_status(host: DemoHost, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    give_up_at = time.monotonic() + PATIENCE_S
    shown: dict[str, Any] = {}
    while True:
        try:
            shown = host.client().get("/v1/status")
        except UnreachableError:
            shown = {}
        if shown and is_so(shown):
            return shown
        assert time.monotonic() < give_up_at, f"it never came to pass: {shown}"
        time.sleep(0.1)


def has_looked(status: dict[str, Any]) -> bool:
    return status["probe"] is not None and all(gpu["verdict"] != "unknown" for gpu in status["gpus"])


def is_verdict(verdict: str) -> Callable[[dict[str, Any]], bool]:
    return lambda status: has_looked(status) and status["gpus"][0]["verdict"] == verdict


def test_the_check_repeats_the_daemon_and_looks_itself_once_that_is_gone(fleet: DemoFleet) -> None:
    host = fleet.hosts["a"]
    fleet.start("a")
    until_status(host, has_looked)
    asked = gpumesh(host, "check", "--format", "nagios")
    assert (asked.returncode, asked.stdout.split(" | ")[0]) == (0, "GPU OK - a: 2 GPUs")
    fleet.kill("a")
    fleet.lose_gpu("a", 1)
    kept = (host.directory / "state/identity.json").read_bytes()
    looked = gpumesh(host, "check", "--format", "nagios")
    assert looked.returncode == 2
    assert "GPU CRITICAL - a: " in looked.stdout
    assert "(one look, no daemon)" in looked.stdout
    assert " gpus=2;;;0 healthy=1;;;0 " in looked.stdout, "the cards are those that the daemon knew"
    assert (host.directory / "state/identity.json").read_bytes() == kept, "no run of the host was begun"


def test_a_silence_changes_the_verdict_at_once_survives_a_restart_and_is_taken_back(
    fleet: DemoFleet,
) -> None:
    host = fleet.hosts["a"]
    host.faults_path.write_text("[gpu.0]\nremap_pending = true\n")
    fleet.start("a")
    until_status(host, is_verdict("degraded"))
    assert gpumesh(host, "check").returncode == 1
    made = gpumesh(host, "silence", "row-remap", "--gpu", "0", "--for", "1h", "--reason", "reset tonight")
    assert (made.returncode, made.stderr) == (0, "")
    status = json.loads(gpumesh(host, "status", "--json").stdout)
    assert is_verdict("healthy")(status), "no look had to come first"
    assert status["gpus"][0]["findings"][0]["silenced_until"] is not None
    assert gpumesh(host, "check").returncode == 0
    assert "silenced until" in gpumesh(host, "status").stdout
    fleet.kill("a")
    fleet.start("a")
    until_status(host, is_verdict("healthy"))
    assert "reset tonight" in gpumesh(host, "silence", "--list").stdout
    assert gpumesh(host, "silence", "row-remap", "--gpu", "0", "--end").returncode == 0
    assert is_verdict("degraded")(json.loads(gpumesh(host, "status", "--json").stdout))


def test_a_baseline_taken_from_a_host_is_one_that_it_meets(fleet: DemoFleet) -> None:
    host = fleet.hosts["a"]
    fleet.start("a")
    until_status(host, has_looked)
    path = host.directory / "baseline.toml"
    assert gpumesh(host, "baseline", "capture", "--out", str(path)).returncode == 0
    fleet.stop()
    assert baseline.parse(path.read_text(), "captured").items
    host.config_path.write_text(
        f'{host.config_path.read_text()}[baseline]\nfile = "{path}"\nmode = "enforce"\n'
    )
    fleet.start("a")
    until_status(host, has_looked)
    shown = gpumesh(host, "baseline")
    assert (shown.returncode, shown.stdout.splitlines()[0]) == (0, f"a: meets its baseline (enforce, {path})")


def test_reload_names_what_needs_a_restart(fleet: DemoFleet) -> None:
    host = fleet.hosts["a"]
    fleet.start("a")
    until_status(host, has_looked)
    told = host.config_path.read_text()
    assert 'name = "a"' in told
    host.config_path.write_text(told.replace('name = "a"', 'name = "other"'))
    os.kill(fleet._processes["a"].pid, signal.SIGHUP)
    give_up_at = time.monotonic() + PATIENCE_S
    while "need `systemctl restart gpumesh`: host.name" not in host.log_path.read_text():
        assert time.monotonic() < give_up_at, host.log_path.read_text()
        time.sleep(0.1)
    assert until_status(host, has_looked)["name"] == "a"


def test_a_daemon_shows_how_full_each_of_its_stores_is(fleet: DemoFleet) -> None:
    fleet.start("a")
    host = fleet.hosts["a"]
    until_status(host, has_looked)
    with urllib.request.urlopen(f"http://127.0.0.1:{host.http_port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    values: dict[str, dict[str, float]] = {"size": {}, "limit": {}}
    for kind, name, value in re.findall(r"^gpumesh_(size|limit)_(\w+) (\S+)$", text, re.MULTILINE):
        values[kind][name] = float(value)
    assert values["size"].keys() == values["limit"].keys()
    assert {"peer_cache", "lookups", "events_kept", "swim_members", "swim_sessions"} <= values["size"].keys()
    assert all(size <= values["limit"][name] for name, size in values["size"].items())
    page = (Path(__file__).parents[2] / "docs" / "membership.md").read_text(encoding="utf-8")
    table = page.partition("<!-- stores -->")[2].partition("<!-- end -->")[0]
    listed = {name.replace("/", "_") for name in re.findall(r"^\| `([a-z_/]+)` \|", table, re.MULTILINE)}
    assert listed == values["limit"].keys(), "docs/membership.md lists every store of the daemon"
