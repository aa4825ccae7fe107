"""Real daemons that bind as they do by default, where the network has one family of addresses alone."""

import json
from pathlib import Path

import pytest

from tests.daemon.namespace import IPV4_ONLY, IPV6_ONLY, python_in_a_network_of_its_own

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]

MEET_AND_FAIL = """
import json, sys, time
from pathlib import Path
from gpumesh.cli.demofleet import DemoFleet
from gpumesh.config.keyring import new_key
from gpumesh.model import Address

fleet, key, address = DemoFleet(Path(sys.argv[1])), new_key(), sys.argv[2]

def until(holds):
    give_up_at = time.monotonic() + 40
    while not holds() and time.monotonic() < give_up_at:
        time.sleep(0.1)

def states():
    return {name: host["state"] for name, host in fleet.fleet_as_seen_by("b").items()}

try:
    for name in ("a", "b"):
        host = fleet.add(name, ("h100",))
        key_file = host.directory / "fleet.key"
        key_file.write_text(key)
        key_file.chmod(0o600)
        seed = f"127.0.0.1:{fleet.hosts['a'].gossip_port}"
        text = host.config_path.read_text().replace(
            json.dumps(seed), json.dumps(str(Address(address, fleet.hosts["a"].gossip_port)))
        )
        host.config_path.write_text(text.replace('bind = "127.0.0.1:', 'bind = "[::]:'))
        fleet.start(name)
    until(lambda: states() == {"a": "ready", "b": "ready"})
    met = fleet.fleet_as_seen_by("b")
    fleet.kill("a")
    until(lambda: states()["a"] == "failed")
    lost = fleet.fleet_as_seen_by("b")["a"]
finally:
    fleet.stop()
hosts = {host["address"].rpartition(":")[0] for host in met.values()}
print(json.dumps([sorted(hosts), sorted(host["state"] for host in met.values()), lost["reason"]]))
"""


@pytest.mark.parametrize(
    ("network", "address", "shown"),
    [(IPV6_ONLY, "2001:db8::5", "[2001:db8::5]"), (IPV4_ONLY, "10.0.0.5", "10.0.0.5")],
    ids=["IPv6", "IPv4"],
)
def test_consul_529_daemons_meet_and_miss_each_other_by_the_only_family_there_is(
    tmp_path: Path, network: str, address: str, shown: str
) -> None:
    said = python_in_a_network_of_its_own(network, MEET_AND_FAIL, str(tmp_path), address, within_s=150)
    hosts, states, reason = json.loads(said.splitlines()[-1])
    assert hosts == [shown]
    assert states == ["ready", "ready"]
    assert "its daemon died, the host answers" in reason, "the kernel's refusal was heard"
