"""Stopping a daemon while nobody, or nobody any more, hears its goodbye."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpumesh.cli.demofleet import DemoFleet

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[DemoFleet]:
    made = DemoFleet(tmp_path)
    for name in ("a", "b"):
        made.add(name, ("h100",))
        made.start(name)
    yield made
    made.stop()


def test_serf_359_a_daemon_whose_peers_do_not_answer_leaves_and_ends_all_the_same(fleet: DemoFleet) -> None:
    give_up_at = time.monotonic() + 60.0
    while {host["state"] for host in fleet.fleet_as_seen_by("a").values()} != {"ready"} or (
        len(fleet.fleet_as_seen_by("a")) < 2
    ):
        assert time.monotonic() < give_up_at, fleet.fleet_as_seen_by("a")
        time.sleep(0.1)
    silent, leaver = fleet._processes["b"], fleet._processes["a"]
    os.kill(silent.pid, signal.SIGSTOP)
    try:
        leaver.terminate()
        assert leaver.wait(30) == 0
    finally:
        os.kill(silent.pid, signal.SIGCONT)
    lines = fleet.hosts["a"].log_path.read_text().splitlines()
    assert lines[-1] == "info: stopped"
    begun = next(number for number, line in enumerate(lines) if line.startswith("info: stopping"))
    assert not [line for line in lines[begun:] if "failed" in line], "it did not wait for a verdict"
    while fleet.fleet_as_seen_by("b")["a"]["state"] != "left":
        assert time.monotonic() < give_up_at + 60.0, "the goodbye waited in its socket"
        time.sleep(0.1)
