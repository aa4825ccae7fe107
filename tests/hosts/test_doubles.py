"""Real daemons that are two of one: a copied state directory, a copied address. Both say so."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpumesh.cli.demofleet import DemoFleet, DemoHost
from gpumesh.config.keyring import new_key
from gpumesh.errors import UnreachableError

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]

KEY = new_key()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[DemoFleet]:
    made = DemoFleet(tmp_path)
    for name in ("a", "b", "c"):
        add(made, name)
        made.start(name)
    until(lambda: len(made.fleet_as_seen_by("b")) == 3, lambda: made.fleet_as_seen_by("b"))
    yield made
    made.stop()


def add(fleet: DemoFleet, name: str) -> DemoHost:
    host = fleet.add(name, ("h100",))
    key_file = host.directory / "fleet.key"
    key_file.write_text(KEY + "\n")
    key_file.chmod(0o600)
    return host


def until(holds: Callable[[], bool], what: Callable[[], object], within_s: float = 60.0) -> None:
    give_up_at = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < give_up_at, f"never came: {what()}"
        time.sleep(0.2)


def told(host: DemoHost, check: str) -> list[str]:
    """Return the reasons of the host's findings of this check."""
    try:
        findings = host.client().get("/v1/status")["findings"]
    except UnreachableError:
        return []
    return [finding["reason"] for finding in findings if finding["check"] == check]


def await_told(hosts: list[DemoHost], check: str) -> list[str]:
    until(
        lambda: all(told(host, check) for host in hosts),
        lambda: {host.name: host.client().get("/v1/status")["findings"] for host in hosts},
    )
    return [reason for host in hosts for reason in told(host, check)]


def await_words(host: DemoHost, words: str) -> None:
    """Wait for the finding with the other side's name, which may come later than the conflict."""
    until(lambda: any(words in reason for reason in told(host, "host-address")), lambda: status(host))


def kinds(host: DemoHost) -> list[str]:
    return [event.data["kind"] for event in host.client().events([("since", "start"), ("follow", "false")])]


def status(host: DemoHost) -> str:
    argv = [sys.executable, "-m", "gpumesh.cli.main", "--config", str(host.config_path), "status"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout


def test_a_copied_state_directory_is_said_on_both_hosts_with_the_way_out(fleet: DemoFleet) -> None:
    original = fleet.hosts["b"]
    copy = add(fleet, "copy")
    shutil.copytree(
        original.directory / "state",
        copy.directory / "state",
        ignore=shutil.ignore_patterns("*.lock", "lock"),
    )
    fleet.start("copy")
    reasons = await_told([original, copy], "host-identity")
    host_id = original.client().get("/v1/status")["host_id"]
    assert all(host_id in reason for reason in reasons)
    for host, other in ((original, copy), (copy, original)):
        assert f"127.0.0.1:{other.gossip_port}" in told(host, "host-identity")[0]
        assert "host.conflict" in kinds(host)
        assert "delete identity.json" in " ".join(status(host).split())
        assert told(host, "host-address") == []


def test_a_copied_address_is_said_on_both_hosts_and_the_rightful_one_stays(fleet: DemoFleet) -> None:
    original = fleet.hosts["b"]
    copy = add(fleet, "copy")
    bind = f'bind = "127.0.0.1:{copy.gossip_port}"\n'
    text = copy.config_path.read_text()
    assert bind in text
    advertise = f'advertise = "127.0.0.1:{original.gossip_port}"\n'
    copy.config_path.write_text(text.replace(bind, bind + advertise))
    fleet.start("copy")
    reasons = await_told([original, copy], "host-address")
    assert all(f"127.0.0.1:{original.gossip_port}" in reason for reason in reasons)
    for host, other in ((original, copy), (copy, original)):
        await_words(host, f"this host and {other.name} (")
    seen = fleet.fleet_as_seen_by("a")
    assert (seen["b"]["state"], seen["copy"]["state"]) == ("ready", "failed")
    assert "gossip.advertise" in " ".join(status(copy).split())
    assert kinds(fleet.hosts["a"]).count("host.failed") == 1
