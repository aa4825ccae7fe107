"""The size of datagrams follows what the paths to peers carry."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from gpumesh.daemon.paths import datagram_bytes, watch_paths
from gpumesh.model import Address

ROOT = Path(__file__).parents[2]
LOOPBACK = Address("127.0.0.1", 7977)
ASK = """
import sys
from gpumesh.daemon.paths import datagram_bytes
from gpumesh.model import Address
print(datagram_bytes([Address(host, 7977) for host in sys.argv[1:]]))
"""


def in_a_network_of_its_own(mtu_bytes: int, *hosts: str) -> str:
    """Ask for the size of datagrams where the only link carries ``mtu_bytes``."""
    script = f"ip link set lo mtu {mtu_bytes} up && exec {sys.executable} -c '{ASK}' {' '.join(hosts)}"
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=60,
    )
    if done.returncode != 0:
        pytest.skip(f"no network namespace can be made here: {done.stderr.strip()}")
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("mtu_bytes", "hosts", "expected"), [(1280, ["127.0.0.1"], "1252"), (900, [], "None")]
)
def test_corrosion_460_the_size_of_datagrams_is_derived_from_the_paths_mtu(
    mtu_bytes: int, hosts: list[str], expected: str
) -> None:
    assert in_a_network_of_its_own(mtu_bytes, *hosts) == expected


def test_the_narrowest_path_counts_and_one_without_a_route_does_not() -> None:
    here = datagram_bytes([LOOPBACK])
    assert here is not None
    assert here > 1400
    assert datagram_bytes([LOOPBACK, Address("255.255.255.255", 1)]) == here
    assert datagram_bytes([]) is None


async def test_what_the_paths_carry_is_told_for_as_long_as_the_daemon_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpumesh.daemon.paths.LOOK_EVERY_S", 0.001)
    told: asyncio.Queue[int] = asyncio.Queue()
    watching = asyncio.create_task(watch_paths(lambda: [LOOPBACK], told.put_nowait))
    for _ in range(2):
        assert await asyncio.wait_for(told.get(), 20) > 1400
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
