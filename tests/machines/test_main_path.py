"""The main path on booted machines, as an operator walks it; each test goes on where the last one stopped.

Three machines, Debian 12 twice and 13 once, with the fake driver library standing in for cards, and a fourth
that never gets the key. What a test breaks it mends.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.nvml.build import library
from tests.fakes.nvml.state import FakeDriver
from tests.machines.fleet import Fleet, wait_until
from tests.machines.machine import Machine

pytestmark = [pytest.mark.machines, pytest.mark.timeout(900)]

STATE_FILE = "/etc/fake-nvml/state"
LIBRARY = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
CARDS = {
    "cafe": ("rtx-4080-super", "rtx-2080-super"),
    "bench": ("rtx-2080-super", "rtx-2080-super"),
    "render": ("h100", "h200"),
}
SUITES = {"cafe": "bookworm", "bench": "bookworm", "render": "trixie", "stranger": "bookworm"}
COOLDOWN_S = 10
KEYS = [f"job-{number}" for number in range(5)]
ONLY_ON = {"&model=4080": "cafe", "&model=2080&gpus=2": "bench", "&memory=60GiB&gpus=2": "render"}
"""Requests that one host alone can take."""
TWO_2080, LARGE = "&model=2080&gpus=2", "&memory=60GiB&gpus=2"


class Hosts:
    """The machines by name, each with the state file of its fake driver."""

    def __init__(self, machines: list[Machine], folder: Path) -> None:
        self.by_name = {machine.name: machine for machine in machines}
        self.folder = folder
        self.drivers: dict[str, FakeDriver] = {}

    def __getitem__(self, name: str) -> Machine:
        return self.by_name[name]

    @property
    def members(self) -> list[Machine]:
        return [self.by_name[name] for name in CARDS]

    def plug_cards(self, name: str) -> None:
        """Install the driver: library and cards."""
        driver = FakeDriver(self.folder / f"{name}.state", host=name)
        for profile in CARDS[name]:
            slot = driver.add_gpu(profile)
            for process in [key for key in driver._gpus[slot] if key.startswith("process ")]:
                driver.set(slot, process, None)  # those of the captured desktop run on no machine here
        self.drivers[name] = driver
        self.push(name)
        self[name].copy_in(library() / "libnvidia-ml.so.1", LIBRARY, 0o755)

    def push(self, name: str) -> None:
        """Let the machine's driver take up what was changed in its state."""
        self[name].write(STATE_FILE, self.drivers[name].path.read_text())


@pytest.fixture(scope="module")
def hosts(deb: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with Fleet(deb) as fleet:
        machines = fleet.boot(**SUITES)
        for machine in machines:
            machine.install(deb)
        yield Hosts(machines, tmp_path_factory.mktemp("drivers"))


@pytest.fixture(autouse=True)
def journals_of_a_failed_test(hosts: Hosts, request: pytest.FixtureRequest) -> Iterator[None]:
    failed_before = request.session.testsfailed
    yield
    if request.session.testsfailed > failed_before:
        for machine in hosts.by_name.values():
            if machine.pid1:
                print(f"--- {machine.name}\n{machine.journal()[-6000:]}")


def states_at(observer: Machine) -> dict[str, str]:
    """State by host name, as one machine sees the fleet."""
    fleet = json.loads(observer.run("gpumesh fleet --json").stdout)
    return {host["name"]: host["state"] for host in fleet["hosts"]}


def status_of(machine: Machine) -> Any:
    return machine.get_json("/v1/status")


def placements_at(observer: Machine, query: str = "") -> dict[str, str | None]:
    """Chosen host by key, as one machine decides."""
    answers = {}
    for key in KEYS:
        chosen = observer.get_json(f"/v1/placement?key={key}{query}")["chosen"]
        answers[key] = chosen["host"] if chosen else None
    return answers


def await_states(observers: list[Machine], expected: dict[str, str], within_s: float) -> float:
    """Wait until all observers see these states; the seconds it took."""

    def hold() -> bool:
        seen = [states_at(observer) for observer in observers]
        return all(states.get(name) == state for states in seen for name, state in expected.items())

    try:
        return wait_until(hold, within_s, f"{expected} at {[observer.name for observer in observers]}")
    except AssertionError as error:
        seen = {observer.name: states_at(observer) for observer in observers}
        raise AssertionError(f"{error}; they see {seen}") from None


def await_status(machine: Machine, holds: Callable[[Any], bool], within_s: float, what: str) -> float:
    return wait_until(lambda: holds(status_of(machine)), within_s, what)


def test_a_host_without_a_driver_says_so_and_what_to_do(hosts: Hosts) -> None:
    for machine in hosts.members:
        await_status(machine, lambda status: status["state"] == "unhealthy", 20, "unhealthy without a driver")
    shown = hosts["cafe"].run("gpumesh status", check=False)
    assert "driver" in shown.stdout
    assert re.search(r"install|load", shown.stdout), shown.stdout
    assert hosts["cafe"].run("gpumesh check", check=False).returncode == 1
    assert hosts["cafe"].run("systemctl is-active gpumesh").stdout == "active\n"


def test_a_host_becomes_healthy_by_itself_when_its_driver_appears(hosts: Hosts) -> None:
    restarts = "systemctl show -p MainPID --value gpumesh"
    pids = {machine.name: machine.run(restarts).stdout for machine in hosts.members}
    for machine in hosts.members:
        hosts.plug_cards(machine.name)
    for machine in hosts.members:
        took_s = await_status(
            machine,
            lambda status: (
                len(status["gpus"]) == 2 and {gpu["verdict"] for gpu in status["gpus"]} == {"healthy"}
            ),
            60,
            "both cards healthy",
        )
        print(f"{machine.name}: cards seen {took_s:.1f} s after the driver appeared")
    assert {machine.name: machine.run(restarts).stdout for machine in hosts.members} == pids


def test_init_token_and_join_make_a_fleet_within_15_seconds(hosts: Hosts) -> None:
    first, *others = hosts.members
    first.run("gpumesh init --fleet cafe --no-restart")
    first.run(f"printf '[lease]\\ncooldown = \"{COOLDOWN_S}s\"\\n' >> /etc/gpumesh/gpumesh.toml")
    assert first.run("gpumesh init --fleet cafe").stdout.startswith("/etc/gpumesh/fleet.key exists")
    first.run("systemctl restart gpumesh")
    await_status(
        first, lambda status: not status["address"].startswith("127."), 20, "an address off loopback"
    )
    token = first.run("gpumesh token").stdout.strip()
    for machine in others:
        machine.run(f"gpumesh join {token}")
    everybody = dict.fromkeys(CARDS, "ready")
    took_s = await_states(hosts.members, everybody, 15)
    print(f"all ready {took_s:.1f} s after the last join")
    for observer in hosts.members:
        gpus = observer.get_json("/v1/gpus")["gpus"]
        assert len(gpus) == 6
        assert {gpu["verdict"] for gpu in gpus} == {"healthy"}


def test_curl_shows_the_cards_as_the_driver_says(hosts: Hosts) -> None:
    status = status_of(hosts["render"])
    assert [gpu["model"] for gpu in status["gpus"]] == ["NVIDIA H100 80GB HBM3", "NVIDIA H200"]
    assert status["driver_version"] == "590.48.01"
    metrics = hosts["render"].run("curl -sS http://127.0.0.1:9477/metrics").stdout
    for gpu in status["gpus"]:
        assert f'UUID="{gpu["uuid"]}"' in metrics
    assert "DCGM_FI_DEV_GPU_TEMP" in metrics


def test_each_machine_is_a_host_of_its_own_though_they_share_a_product_uuid(hosts: Hosts) -> None:
    ids = {status_of(machine)["host_id"] for machine in hosts.by_name.values()}
    assert len(ids) == len(hosts.by_name)


def test_every_host_gives_the_same_placement_for_the_same_key(hosts: Hosts) -> None:
    answers = [placements_at(observer) for observer in hosts.members]
    assert answers[0] == answers[1] == answers[2]
    assert None not in answers[0].values()
    for query, expected in ONLY_ON.items():
        assert [set(placements_at(observer, query).values()) for observer in hosts.members] == [
            {expected}
        ] * 3
    nowhere = hosts["cafe"].run("gpumesh place --key big --gpus 9", check=False)
    assert nowhere.returncode == 1
    assert "cafe" in nowhere.stdout


def test_a_host_without_the_key_or_with_another_label_gets_nothing(hosts: Hosts) -> None:
    stranger, member = hosts["stranger"], hosts["cafe"]
    seeds = json.dumps([f"{machine.address}:7977" for machine in hosts.members])
    key = member.run("cat /etc/gpumesh/fleet.key").stdout
    for fleet, secret in (("cafe", None), ("elsewhere", key)):
        stranger.run("rm -f /etc/gpumesh/fleet.key /etc/gpumesh/gpumesh.toml")
        stranger.run(f"gpumesh init --fleet {fleet} --no-restart")
        stranger.run(f"sed -i '/^\\[gossip\\]/a seeds = {seeds}' /etc/gpumesh/gpumesh.toml")
        if secret is not None:
            stranger.run("cat > /etc/gpumesh/fleet.key", stdin=secret.encode())
        stranger.run("systemctl restart gpumesh")
        time.sleep(8)
        assert set(states_at(stranger)) == {"stranger"}
        for machine in hosts.members:
            assert set(states_at(machine)) == set(CARDS)
    drops = member.run("curl -sS http://127.0.0.1:9477/metrics | grep ^gpumesh_drops_total").stdout
    assert 'reason="unknown_key"' in drops
    assert 'reason="bad_label"' in drops
    stranger.run("systemctl stop gpumesh")


def test_a_lost_card_degrades_its_host_everywhere_within_10_seconds(hosts: Hosts) -> None:
    render = hosts.drivers["render"]
    render.lose(1)
    hosts.push("render")
    took_s = await_states(hosts.members, {"render": "degraded", "cafe": "ready", "bench": "ready"}, 10)
    print(f"a lost card was known everywhere after {took_s:.1f} s")
    for observer in hosts.members:
        (host,) = (host for host in observer.get_json("/v1/fleet")["hosts"] if host["name"] == "render")
        assert sorted(gpu["verdict"] for gpu in host["gpus"]) == ["healthy", "unhealthy"]
        chosen = observer.get_json("/v1/placement?key=k&memory=60GiB")["chosen"]
        assert chosen["host"] == "render", "its other card stays placeable"
        assert observer.get_json("/v1/placement?key=k&memory=60GiB&gpus=2")["chosen"] is None
    shown = hosts["render"].run("gpumesh status", check=False).stdout
    assert "lost" in shown
    render.clear_faults()
    hosts.push("render")
    await_states(hosts.members, dict.fromkeys(CARDS, "ready"), 90)


def test_a_hung_driver_is_a_finding_and_heartbeats_go_on(hosts: Hosts) -> None:
    bench = hosts.drivers["bench"]
    bench.hang("nvmlDeviceGetPowerUsage")
    hosts.push("bench")

    def is_told(status: Any) -> bool:
        return any("not answer" in finding["reason"] for finding in status["findings"])

    deadline_s, interval_s, slack_s = 5, 7.5, 2.5  # a host at rest is looked at each 7.5 s
    try:
        took_s = await_status(hosts["bench"], is_told, deadline_s + interval_s + slack_s, "the driver hangs")
        print(f"a hung driver was told after {took_s:.1f} s")
        (finding,) = [f for f in status_of(hosts["bench"])["findings"] if "not answer" in f["reason"]]
        assert "nvmlDeviceGetPowerUsage" in finding["reason"]
        for _ in range(15):
            for observer in (hosts["cafe"], hosts["render"]):
                (host,) = (h for h in observer.get_json("/v1/fleet")["hosts"] if h["name"] == "bench")
                assert host["reachability"] == "alive"
            time.sleep(1)
        children = hosts["bench"].run("pgrep -fc '[d]aemon.prober_child'").stdout.strip()
        assert children == "1", "never a second probe behind a stuck one"
    finally:
        bench.clear_faults()
        hosts.push("bench")
    await_states(hosts.members, dict.fromkeys(CARDS, "ready"), 120)


def test_a_third_of_all_packets_lost_for_two_minutes_fails_no_healthy_host(hosts: Hosts) -> None:
    for machine in hosts.members:
        machine.drop_percent(30)
    try:
        seen: set[str] = set()
        end_at = time.monotonic() + 120
        while time.monotonic() < end_at:
            for observer in hosts.members:
                seen |= set(states_at(observer).values())
            time.sleep(0.5)
    finally:
        for machine in hosts.members:
            machine.heal()
    print(f"states seen under 30 % loss: {sorted(seen)}")
    assert "failed" not in seen
    assert "left" not in seen
    await_states(hosts.members, dict.fromkeys(CARDS, "ready"), 30 + COOLDOWN_S)
    for machine in hosts.members:
        assert "host.failed" not in machine.run("gpumesh events --no-follow --since start").stdout


def test_a_stopped_daemon_has_left_within_3_seconds_and_never_failed(hosts: Hosts) -> None:
    observers = [hosts["cafe"], hosts["render"]]
    stopped_at = time.monotonic()
    hosts["bench"].run("systemctl stop gpumesh")
    await_states(observers, {"bench": "left"}, 3)
    print(f"left was known everywhere {time.monotonic() - stopped_at:.1f} s after systemctl stop began")
    time.sleep(12)
    for observer in observers:
        assert states_at(observer)["bench"] == "left"
        events = observer.run("gpumesh events --no-follow --since 30s").stdout
        assert "host.left" in events
        assert "host.failed" not in events


def test_a_restarted_host_cools_down_before_it_is_ready(hosts: Hosts) -> None:
    hosts["bench"].run("systemctl start gpumesh")
    await_states(hosts.members, {"bench": "cooldown"}, 10)
    began_at = time.monotonic()
    assert set(placements_at(hosts["cafe"], TWO_2080).values()) == {None}
    await_states(hosts.members, {"bench": "ready"}, COOLDOWN_S + 10)
    print(f"cooldown lasted {time.monotonic() - began_at:.1f} s of {COOLDOWN_S} s")
    assert time.monotonic() - began_at > COOLDOWN_S / 2


def test_cordon_is_seen_everywhere_and_outlives_a_restart(hosts: Hosts) -> None:
    hosts["cafe"].run("gpumesh cordon new fan")
    await_states(hosts.members, {"cafe": "cordoned"}, 5)
    assert set(placements_at(hosts["render"], "&model=4080").values()) == {None}
    hosts["cafe"].run("systemctl restart gpumesh")
    await_states(hosts.members, {"cafe": "cordoned"}, 15)
    hosts["cafe"].run("gpumesh uncordon")
    await_states(hosts.members, {"cafe": "ready"}, COOLDOWN_S + 15)


def test_a_power_cut_is_known_within_30_seconds_and_placement_avoids_the_host(hosts: Hosts) -> None:
    render, observers = hosts["render"], [hosts["cafe"], hosts["bench"]]
    assert set(placements_at(hosts["cafe"], LARGE).values()) == {"render"}
    identity = status_of(render)
    render.cut_network()  # a host without power refuses nothing, as the kernel of a dead container would
    render.power_cut()
    took_s = await_states(observers, {"render": "failed"}, 30)
    print(f"a power cut was known everywhere after {took_s:.1f} s")
    answers = [placements_at(observer) for observer in observers]
    assert answers[0] == answers[1]
    assert not {"render", None} & set(answers[0].values())
    refused = observers[0].get_json(f"/v1/placement?key=k{LARGE}")
    assert refused["chosen"] is None
    assert any(item["host"] == "render" and "failed" in item["reason"] for item in refused["rejections"])
    render.heal()
    render.start()
    render.wait_until_booted()
    await_states(hosts.members, dict.fromkeys(CARDS, "ready"), 60)
    again = status_of(render)
    assert again["host_id"] == identity["host_id"]
    assert again["epoch"] > identity["epoch"]
    assert again["boot_id"] != identity["boot_id"]


def test_leave_stops_the_daemon_for_good_until_it_is_started(hosts: Hosts) -> None:
    hosts["bench"].run("gpumesh leave")
    await_states([hosts["cafe"], hosts["render"]], {"bench": "left"}, 5)
    wait_until(
        lambda: hosts["bench"].run("systemctl is-active gpumesh", check=False).stdout == "inactive\n",
        10,
        "inactive",
    )
    unreachable = hosts["bench"].run("gpumesh status", check=False)
    assert unreachable.returncode == 3
    assert "systemctl start gpumesh" in unreachable.stderr
    hosts["bench"].run("systemctl start gpumesh")
    await_states(hosts.members, dict.fromkeys(CARDS, "ready"), COOLDOWN_S + 20)
