"""One real daemon in a fleet of thousands: what it holds in memory, and what it computes.

The daemon joins a member whose table and records were filled beforehand; all other members live at addresses
of their own on loopback, where one socket answers pings in their name.
"""

import asyncio
import socket
import struct
import subprocess
import time
from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path
from random import Random
from uuid import UUID

from gpumesh.config import Config, GossipConfig
from gpumesh.config.keyring import Keyring
from gpumesh.daemon.clock import boot_time
from gpumesh.daemon.shell import Shell
from gpumesh.daemon.sockets import GossipSocket
from gpumesh.errors import RejectedError
from gpumesh.mesh.engine import Mesh
from gpumesh.model import Address, HostFacts, Identity, Reachability
from gpumesh.records.engine import Records
from gpumesh.sim.gpus import report_of
from gpumesh.swim.frames import Row
from gpumesh.swim.seal import SESSION_BYTES, FleetSealer
from gpumesh.swim.statement import Statement
from gpumesh.swim.wire import Ack, Ping, Sender, decode, encode_body, encode_head
from tests.bench.fleet import BenchError, free_ports
from tests.bench.makes import Gpumesh, Place
from tests.bench.process import MIB, memory, tree_cpu_s
from tests.bench.row import Bound
from tests.bench.row import Row as Measure
from tests.bench.scrape import scrape

FLEET = "bench"
IP_PKTINFO = 8
"""linux/in.h; the socket module names it from Python 3.12 on."""
JOIN_S = 180.0
POLL_S = 1.0
GPUS_A_HOST = 2
MOST_RSS = Bound(130e6 / MIB / MIB, is_exclusive=True)
"""130 MB."""


def measure_crowd(number: int, rest_s: float, directory: Path) -> list[Measure]:
    """Run one daemon in a fleet of ``number``; measure its CPU and memory while nothing happens."""
    return asyncio.run(_measure(number, rest_s, directory))


async def _measure(number: int, rest_s: float, directory: Path) -> list[Measure]:
    make = Gpumesh()
    ports = free_ports(4)
    place = Place("daemon", directory / "daemon", ports[0], ports[1])
    place.directory.mkdir(parents=True)
    seed = Place("crowd", directory, ports[2], ports[3])
    keyring = Keyring.parse(make.key)
    crowd = _Crowd(number - 1, Address("127.0.0.1", seed.gossip_port), ports[3], keyring)
    await crowd.start()
    with (place.directory / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: ASYNC220 (ended below)
            ["setpriv", "--pdeathsig", "KILL", *make.command(place, seed)], stdout=log, stderr=log
        )
    try:
        await _await_joined(place, number)
        await asyncio.sleep(rest_s)
        cpu, began_at = tree_cpu_s(process.pid), time.monotonic()
        await asyncio.sleep(rest_s)
        share = 100 * (tree_cpu_s(process.pid) - cpu) / (time.monotonic() - began_at)
        at = f"a fleet of {number}"
        return [
            Measure(f"{at}: RSS of a daemon", "MiB", {make.name: memory(process.pid).rss}, {}, MOST_RSS),
            Measure(f"{at}: CPU of a daemon with its children", "%", {make.name: share}, {}),
        ]
    finally:
        process.kill()
        process.wait()
        await crowd.close()


async def _await_joined(place: Place, number: int) -> None:
    give_up_at = time.monotonic() + JOIN_S
    known = 0
    while time.monotonic() < give_up_at:
        await asyncio.sleep(POLL_S)
        known = await asyncio.to_thread(_num_known, place)
        if known >= number:
            return
    raise BenchError(
        f"after {JOIN_S:.0f} s the daemon knows {known} of {number} hosts: see {place.directory}"
    )


def _num_known(place: Place) -> int:
    try:
        samples = scrape(place)
    except OSError:
        return 0
    return sum(
        int(value)
        for name, value in samples.items()
        if name.startswith("gpumesh_fleet_hosts{") and 'state="left"' not in name
    )


class _Crowd:
    """All members but the daemon: the first one runs the whole engine, the others answer pings."""

    def __init__(self, number: int, address: Address, port: int, keyring: Keyring) -> None:
        random = Random(number)
        ids = [str(UUID(int=random.getrandbits(128), version=4)) for _ in range(number)]
        self._sealer = FleetSealer(keyring, FLEET, random.randbytes(SESSION_BYTES))
        first = int(IPv4Address("127.1.0.1"))
        hosts = [str(IPv4Address(first + place)) for place in range(number)]
        self._ids = dict(zip(hosts[1:], ids[1:], strict=True))
        now = boot_time()
        self._mesh = Mesh(
            identity=Identity(ids[0], "h0", 1, "boot"),
            config=Config(gossip=GossipConfig(fleet=FLEET)),
            facts=HostFacts(name="h0", boot_id="boot", version="0"),
            address=address,
            sealer=FleetSealer(keyring, FLEET, random.randbytes(SESSION_BYTES)),
            random=random,
            now=now,
            unix_offset=0.0,
        )
        self._mesh.set_health(report_of("h0", GPUS_A_HOST), now)
        self._fill(ids[0], [(host_id, Address(host, port)) for host, host_id in self._ids.items()], now)
        self._shell = Shell(
            self._mesh, GossipSocket(address), boot_time, on_progress=_ignore, on_output=self._drop_events
        )
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        self._socket.setblocking(False)
        self._socket.bind(("0.0.0.0", port))

    def _fill(self, own_id: str, others: Sequence[tuple[str, Address]], now: float) -> None:
        # What a sync would have brought, put where a sync puts it, without ten thousand conversations.
        records, intake = self._mesh._records, self._mesh._swim._intake
        own = records.entries(own_id)
        for host_id, address in others:
            statement = Statement(Reachability.ALIVE, host_id, 1, 0, address)
            intake.handle_row(Row(statement, 0), now, is_joining=True)
            theirs = Records(host_id=host_id, epoch=1)
            for name, entry in own.items():
                theirs.publish(name, entry.value)
            for page in theirs.pages_to_send(Records(host_id=own_id, epoch=1).summary_to_send()):
                records.handle_page(page, now)
        self._drop_events()

    def _drop_events(self) -> None:
        while self._mesh.next_event() is not None:
            pass

    async def start(self) -> None:
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._answer)
        await self._shell.start()

    async def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()
        await self._shell.close()

    def _answer(self) -> None:
        while True:
            try:
                data, found, _, peer = self._socket.recvmsg(65_536, 256)
            except BlockingIOError:
                return
            asked = struct.unpack("=I4s4s", found[0][2])[2]
            host_id = self._ids.get(socket.inet_ntoa(asked))
            try:
                datagram = decode(self._sealer.open(data).body)
            except RejectedError:
                continue
            if host_id is None or not isinstance(datagram.primary, Ping):
                continue
            head = encode_head(Sender(host_id, 1, 0, 1), b"", Ack(datagram.primary.seq, is_stranger=False))
            info = [(socket.IPPROTO_IP, IP_PKTINFO, struct.pack("=I4s4s", 0, asked, bytes(4)))]
            self._socket.sendmsg([self._sealer.seal(encode_body(head, [], []))], info, 0, peer)


def _ignore() -> None:
    """The crowd has no watchdog."""
