"""The size of datagrams follows what the paths to peers carry."""

import asyncio

import pytest

from gpumesh.daemon.paths import datagram_bytes, watch_paths
from gpumesh.model import Address
from tests.daemon.namespace import python_in_a_network_of_its_own

LOOPBACK = Address("127.0.0.1", 7977)
ASK = """
import sys
from gpumesh.daemon.paths import datagram_bytes
from gpumesh.model import Address
print(datagram_bytes([Address(host, 7977) for host in sys.argv[1:]]))
"""


@pytest.mark.parametrize(
    ("mtu_bytes", "hosts", "expected"), [(1280, ["127.0.0.1"], "1252"), (900, [], "None")]
)
def test_corrosion_460_the_size_of_datagrams_is_derived_from_the_paths_mtu(
    mtu_bytes: int, hosts: list[str], expected: str
) -> None:
    network = f"ip link set lo mtu {mtu_bytes} up"
    assert python_in_a_network_of_its_own(network, ASK, *hosts) == expected


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
