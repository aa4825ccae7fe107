"""Real daemons on loopback with simulated cards: what operators, flaky hosts and hostile ones do to them."""

import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpumesh.cli.client import ControlClient
from gpumesh.cli.demofleet import DemoFleet, DemoHost
from gpumesh.config.keyring import new_key, parse_key
from gpumesh.errors import UnreachableError

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]

KEY = new_key()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[DemoFleet]:
    made = DemoFleet(tmp_path)
    yield made
    made.stop()


def add_keyed(fleet: DemoFleet, name: str, key: str = KEY, profiles: tuple[str, ...] = ("h100",)) -> DemoHost:
    host = fleet.add(name, profiles)
    key_file = host.directory / "fleet.key"
    key_file.write_text(key + "\n")
    key_file.chmod(0o600)
    return host


def start_three(fleet: DemoFleet) -> None:
    for name in ("a", "b", "c"):
        add_keyed(fleet, name)
        fleet.start(name)
    await_states(fleet, ("a", "b", "c"), {"a": "ready", "b": "ready", "c": "ready"})


def until(holds: Callable[[], bool], what: Callable[[], object], within_s: float = 45.0) -> None:
    give_up_at = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > give_up_at:
            raise AssertionError(f"never came: {what()}")
        time.sleep(0.1)


def states(fleet: DemoFleet, observer: str) -> dict[str, str]:
    return {name: str(host["state"]) for name, host in fleet.fleet_as_seen_by(observer).items()}


def await_states(fleet: DemoFleet, observers: tuple[str, ...], expected: dict[str, str]) -> None:
    def seen() -> dict[str, dict[str, str]]:
        return {observer: states(fleet, observer) for observer in observers}

    until(
        lambda: all(expected.items() <= view.items() for view in seen().values()), lambda: (expected, seen())
    )


def told_of_cards(fleet: DemoFleet, observer: str, name: str) -> str:
    host = fleet.fleet_as_seen_by(observer)[name]
    return " ".join(item["reason"] for gpu in host["gpus"] for item in gpu["findings"])


def pid_of(fleet: DemoFleet, name: str) -> int:
    return fleet._processes[name].pid


def events_of(host: DemoHost) -> list[dict[str, Any]]:
    return [event.data for event in host.client().events([("since", "start"), ("follow", "false")])]


def metric(host: DemoHost, name: str) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", host.http_port, timeout=10)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def run_daemon(host: DemoHost) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "gpumesh.cli.main", "--config", str(host.config_path), "daemon"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_a_killed_daemon_is_failed_and_a_stopped_one_has_left(fleet: DemoFleet) -> None:
    start_three(fleet)
    fleet.kill("c")
    await_states(fleet, ("a", "b"), {"c": "failed"})
    fleet._processes["b"].terminate()
    assert fleet._processes["b"].wait(10) == 0
    await_states(fleet, ("a",), {"b": "left", "c": "failed"})
    kinds = {(event["kind"], event["host"]) for event in events_of(fleet.hosts["a"])}
    assert ("host.failed", "c") in kinds
    assert ("host.left", "b") in kinds
    assert ("host.failed", "b") not in kinds


def test_a_restarted_host_has_a_higher_epoch_and_cools_down(fleet: DemoFleet) -> None:
    start_three(fleet)
    before = fleet.fleet_as_seen_by("a")["c"]
    fleet.kill("c")
    fleet.start("c")
    await_states(fleet, ("a", "b"), {"c": "cooldown"})
    await_states(fleet, ("a", "b", "c"), {"c": "ready"})
    after = fleet.fleet_as_seen_by("a")["c"]
    assert after["host_id"] == before["host_id"]
    assert after["epoch"] > before["epoch"]


def test_akka_30335_a_daemon_stopped_and_continued_accuses_nobody(fleet: DemoFleet) -> None:
    start_three(fleet)
    before = metric(fleet.hosts["c"], "gpumesh_stalls_total")
    os.kill(pid_of(fleet, "c"), signal.SIGSTOP)
    await_states(fleet, ("a", "b"), {"c": "failed"})
    os.kill(pid_of(fleet, "c"), signal.SIGCONT)
    await_states(fleet, ("a", "b", "c"), {"a": "ready", "b": "ready", "c": "ready"})
    accused = {event["host"] for event in events_of(fleet.hosts["c"]) if event["kind"] == "host.failed"}
    assert accused == set()
    assert metric(fleet.hosts["c"], "gpumesh_stalls_total") > before, "it saw the gap"


def test_a_host_with_another_key_meets_nobody_and_is_counted(fleet: DemoFleet) -> None:
    start_three(fleet)
    add_keyed(fleet, "stranger", new_key())
    fleet.start("stranger")
    until(lambda: "stranger" in states(fleet, "stranger"), lambda: "stranger is up")
    until(
        lambda: metric(fleet.hosts["a"], 'gpumesh_drops_total{reason="unknown_key"}') > 0,
        lambda: "its datagrams are counted",
    )
    assert set(states(fleet, "stranger")) == {"stranger"}
    assert set(states(fleet, "a")) == {"a", "b", "c"}


def test_rubbish_on_both_ports_changes_nothing_and_is_counted(fleet: DemoFleet) -> None:
    start_three(fleet)
    target = fleet.hosts["a"]
    rubbish = random.Random(7)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(3000):
            sender.sendto(rubbish.randbytes(rubbish.randrange(1400)), ("127.0.0.1", target.gossip_port))
    for _ in range(40):
        with socket.create_connection(("127.0.0.1", target.gossip_port), timeout=5) as stream:
            stream.sendall(rubbish.randbytes(rubbish.randrange(1, 4000)))
    idle = [socket.create_connection(("127.0.0.1", target.gossip_port), timeout=5) for _ in range(200)]
    time.sleep(3)
    for observer in ("a", "b", "c"):
        assert states(fleet, observer) == {"a": "ready", "b": "ready", "c": "ready"}
    for stream in idle:
        stream.close()
    assert metric(target, "gpumesh_drops_total") > 0


def test_a_hung_driver_stops_no_heartbeat_and_a_lost_card_no_other(fleet: DemoFleet) -> None:
    for name in ("a", "b"):
        add_keyed(fleet, name, profiles=("rtx-4080-super", "rtx-2080-super"))
        fleet.start(name)
    await_states(fleet, ("a", "b"), {"a": "ready", "b": "ready"})
    fleet.lose_gpu("b", 1)
    await_states(fleet, ("a",), {"b": "degraded"})
    verdicts = [gpu["verdict"] for gpu in fleet.fleet_as_seen_by("a")["b"]["gpus"]]
    assert sorted(verdicts) == ["healthy", "unhealthy"]
    fleet.hosts["b"].faults_path.write_text("driver_hang = true\n")
    await_states(fleet, ("a",), {"b": "unhealthy"})
    assert fleet.fleet_as_seen_by("a")["b"]["reachability"] == "alive"
    (finding,) = [f for f in fleet.fleet_as_seen_by("a")["b"]["findings"] if f["severity"] == "critical"]
    assert "not answer" in finding["reason"]
    fleet.hosts["b"].faults_path.write_text("")
    await_states(fleet, ("a", "b"), {"a": "ready", "b": "ready"})


def test_the_control_socket_changes_what_everybody_sees(fleet: DemoFleet) -> None:
    start_three(fleet)
    control = ControlClient(str(fleet.hosts["b"].directory / "ctl"))
    control.post("/v1/cordon", {"reason": "new fan"})
    await_states(fleet, ("a", "b", "c"), {"b": "cordoned"})
    assert "new fan" in fleet.fleet_as_seen_by("a")["b"]["reason"]
    control.post("/v1/drain", {"reason": ""})
    await_states(fleet, ("a", "b", "c"), {"b": "draining"})
    until(lambda: "let go of" in told_of_cards(fleet, "a", "b"), lambda: told_of_cards(fleet, "a", "b"))
    assert states(fleet, "a")["b"] == "draining", "that its driver is let go of is no illness to its peers"
    control.post("/v1/uncordon", {})
    await_states(fleet, ("a", "b", "c"), {"b": "ready"})
    control.post("/v1/leave", {})
    assert fleet._processes["b"].wait(10) == 0
    await_states(fleet, ("a", "c"), {"b": "left"})
    with pytest.raises(UnreachableError):
        control.post("/v1/cordon", {})


def test_a_second_daemon_is_refused_by_name_and_harms_the_first_in_nothing(fleet: DemoFleet) -> None:
    add_keyed(fleet, "a")
    fleet.start("a")
    await_states(fleet, ("a",), {"a": "ready"})
    second = run_daemon(fleet.hosts["a"])
    assert second.returncode == 1  # it may end: worth another try
    assert f"process {pid_of(fleet, 'a')}" in second.stderr
    assert states(fleet, "a") == {"a": "ready"}


@pytest.mark.parametrize(
    ("section", "key", "says"), [("gossip", "bind", "gossip.bind"), ("http", "listen", "http.listen")]
)
def test_a_port_that_is_taken_is_named(fleet: DemoFleet, section: str, key: str, says: str) -> None:
    host = add_keyed(fleet, "a")
    port = host.gossip_port if section == "gossip" else host.http_port
    kind = socket.SOCK_DGRAM if section == "gossip" else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", port))
        if kind is socket.SOCK_STREAM:
            taken.listen()
        done = run_daemon(host)
    assert done.returncode == 1  # the port may become free: worth another try
    assert says in done.stderr
    assert f"127.0.0.1:{port}" in done.stderr
    assert key in done.stderr


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda text: text + "[gpu2]\n", "gpu2: unknown section"),
        (lambda text: text.replace('"local"', '"quick"'), "gossip.profile"),
        (lambda text: text.replace('["h100"]', '["h999"]'), "h999"),
    ],
)
def test_a_wrong_configuration_is_refused_in_words(
    fleet: DemoFleet, damage: Callable[[str], str], says: str
) -> None:
    host = add_keyed(fleet, "a")
    host.config_path.write_text(damage(host.config_path.read_text()))
    done = run_daemon(host)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_an_open_key_or_a_broken_one_is_refused_in_words(fleet: DemoFleet) -> None:
    host = add_keyed(fleet, "a")
    (host.directory / "fleet.key").chmod(0o644)
    done = run_daemon(host)
    assert (done.returncode, "chmod 0640" in done.stderr) == (2, True)
    (host.directory / "fleet.key").chmod(0o600)
    (host.directory / "fleet.key").write_text("no key\n")
    done = run_daemon(host)
    assert done.returncode == 2
    assert "fleet.key" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_state_directory_that_cannot_be_written_is_told_and_stops_nothing(fleet: DemoFleet) -> None:
    host = add_keyed(fleet, "a")
    state = host.directory / "state"
    for name in ("identity", "inventory", "peers", "admission"):
        (state / f"{name}.tmp").mkdir(parents=True)  # root writes anywhere: this is what stops even root
    fleet.start("a")
    await_states(fleet, ("a",), {"a": "ready"})
    findings = host.client().get("/v1/status")["findings"]
    told = [finding for finding in findings if finding["check"] == "state-directory"]
    assert any("epoch" in finding["reason"] for finding in told)
    assert all(finding["severity"] == "info" for finding in told)


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_lost_or_restored_state_directory_costs_no_place_in_the_fleet(
    fleet: DemoFleet, is_restored: bool
) -> None:
    start_three(fleet)
    state = fleet.hosts["c"].directory / "state"
    backup = (state / "identity.json").read_text()
    for _ in range(2):
        fleet.kill("c")
        fleet.start("c")
        await_states(fleet, ("a", "b", "c"), {"c": "ready"})
    before = fleet.fleet_as_seen_by("a")["c"]
    fleet.kill("c")
    shutil.rmtree(state)
    if is_restored:
        state.mkdir()
        (state / "identity.json").write_text(backup)
    fleet.start("c")
    await_states(fleet, ("a", "b", "c"), {"c": "cooldown"})
    await_states(fleet, ("a", "b", "c"), {"c": "ready"})
    after = fleet.fleet_as_seen_by("a")["c"]
    assert after["host_id"] == before["host_id"]
    assert after["epoch"] == before["epoch"] + 1 == fleet.fleet_as_seen_by("c")["c"]["epoch"]
    assert json.loads((state / "identity.json").read_text())["epoch"] == after["epoch"]
    assert "restored from a backup" in fleet.hosts["c"].log_path.read_text()


def test_a_stop_that_reaches_the_prober_too_is_quiet_and_clean(fleet: DemoFleet) -> None:
    start_three(fleet)
    process = fleet._processes["b"]
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in (*map(int, children), process.pid):
        os.kill(pid, signal.SIGTERM)  # as systemd does with the whole control group
    assert process.wait(10) == 0
    lines = fleet.hosts["b"].log_path.read_text().splitlines()
    assert [line for line in lines if line.startswith(("warning", "error", "critical"))] == []
    assert any("says goodbye (hosts of its fleet that are up: 2)" in line for line in lines)
    assert lines[-1] == "info: stopped"
    await_states(fleet, ("a", "c"), {"b": "left"})


def test_reload_takes_up_labels_and_refuses_a_wrong_file(fleet: DemoFleet) -> None:
    host = add_keyed(fleet, "a")
    fleet.start("a")
    await_states(fleet, ("a",), {"a": "ready"})
    good = host.config_path.read_text()
    host.config_path.write_text(good.replace('demo = "yes"', 'room = "2"'))
    os.kill(pid_of(fleet, "a"), signal.SIGHUP)
    until(
        lambda: fleet.fleet_as_seen_by("a")["a"]["labels"] == {"room": "2"},
        lambda: fleet.fleet_as_seen_by("a")["a"]["labels"],
    )
    host.config_path.write_text(good + "[nonsense]\n")
    os.kill(pid_of(fleet, "a"), signal.SIGHUP)
    until(lambda: "reload refused" in host.log_path.read_text(), host.log_path.read_text)
    assert fleet.fleet_as_seen_by("a")["a"]["labels"] == {"room": "2"}


def test_serf_333_the_fleet_is_found_again_by_the_peer_cache_when_the_seed_is_gone(fleet: DemoFleet) -> None:
    start_three(fleet)
    fleet._processes["c"].terminate()
    assert fleet._processes["c"].wait(10) == 0
    del fleet._processes["c"]
    fleet.kill("a")  # the only seed
    kept = json.loads((fleet.hosts["c"].directory / "state/peers.json").read_text())["peers"]
    assert {peer["port"] for peer in kept} == {fleet.hosts[name].gossip_port for name in ("a", "b")}
    fleet.start("c")
    await_states(fleet, ("b", "c"), {"b": "ready", "c": "ready"})


def run_cli(host: DemoHost, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "gpumesh.cli.main", "--config", str(host.config_path), *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_a_key_is_rotated_across_a_living_fleet_and_nobody_is_lost(fleet: DemoFleet) -> None:
    start_three(fleet)
    fresh = new_key()
    old_id, new_id = (parse_key(text).key_id.hex() for text in (KEY, fresh))
    for words in (("add", fresh), ("use", new_id), ("remove", old_id)):
        for name in ("a", "b", "c"):
            done = run_cli(fleet.hosts[name], "keys", *words, "--no-reload")
            assert done.returncode == 0, done.stderr
            os.kill(pid_of(fleet, name), signal.SIGHUP)
        time.sleep(2)
        for observer in ("a", "b", "c"):
            assert states(fleet, observer) == {"a": "ready", "b": "ready", "c": "ready"}
    listed = run_cli(fleet.hosts["a"], "keys", "list").stdout
    assert new_id in listed
    assert old_id not in listed
    kinds = {event["kind"] for name in ("a", "b", "c") for event in events_of(fleet.hosts[name])}
    assert "host.failed" not in kinds


def test_serf_579_a_host_that_lacks_the_fleets_key_says_which_key_it_lacks(fleet: DemoFleet) -> None:
    start_three(fleet)
    add_keyed(fleet, "late", new_key())
    fleet.start("late")
    wanted = parse_key(KEY).key_id.hex()

    def told() -> list[str]:
        if not fleet.fleet_as_seen_by("late"):
            return []
        findings = fleet.hosts["late"].client().get("/v1/status")["findings"]
        return [finding["reason"] for finding in findings if finding["check"] == "fleet-key"]

    until(lambda: any(wanted in reason for reason in told()), told)
