"""A few whole hosts on an in-memory network in virtual time: lossless, 2 ms, deterministic."""

from __future__ import annotations

import heapq
import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from gpumesh.config import Config
from gpumesh.config.keyring import FleetKey, Keyring
from gpumesh.mesh.engine import Mesh
from gpumesh.model import (
    Action,
    Address,
    Event,
    Finding,
    Gpu,
    HealthReport,
    HostFacts,
    HostState,
    HostView,
    Identity,
    Severity,
    Verdict,
    View,
)
from gpumesh.swim.ports import CloseStream, OpenStream, SendStream
from gpumesh.swim.seal import FleetSealer

KEY = Keyring((FleetKey(bytes(range(32))),))
LATENCY_S = 0.002
UNIX = 1.8e9


def healthy_gpus(number: int, num_gpus: int = 2) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            uuid=f"GPU-{number:04d}-{index}",
            index=index,
            model="NVIDIA GeForce RTX 4090",
            memory_bytes=24 << 30,
            memory_free_bytes=23 << 30,
            capability="8.9",
            pci_bus_id=f"00000000:0{index + 1}:00.0",
            is_busy=False,
            verdict=Verdict.HEALTHY,
        )
        for index in range(num_gpus)
    )


def healthy(number: int, num_gpus: int = 2) -> HealthReport:
    return HealthReport(
        Verdict.HEALTHY,
        gpus=healthy_gpus(number, num_gpus),
        driver_version="550.54.14",
        cuda_version="12.4",
    )


def without_gpu(report: HealthReport, uuid: str) -> HealthReport:
    """Return the report after this card fell off the bus."""
    words = "fell off the bus (Xid 79)"
    finding = Finding(
        "inventory", f"gpu/{uuid}", Severity.CRITICAL, words, Action.REBOOT, evidence={"code": "lost"}
    )
    gpus = tuple(
        replace(gpu, index=None, verdict=Verdict.UNHEALTHY, findings=(finding,)) if gpu.uuid == uuid else gpu
        for gpu in report.gpus
    )
    return replace(report, gpus=gpus)


@dataclass
class Host:
    number: int
    address: Address
    identity: Identity
    mesh: Mesh
    health: HealthReport | None
    seeds: list[Address]
    is_up: bool = True
    is_asleep: bool = False
    """Nothing of it runs, and what is sent to it is lost: a suspend."""
    is_hung: bool = False
    """Its timers do not run, but what arrives is answered."""
    events: list[Event] = field(default_factory=list)

    @property
    def host_id(self) -> str:
        return self.identity.host_id

    def kinds_about(self, other: Host) -> list[str]:
        return [event.kind for event in self.events if event.host_id == other.host_id]


class World:
    """Carries datagrams and streams, feeds health each 5 s, wakes each host at its deadlines."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.hosts: list[Host] = []
        self.cut_off: set[Address] = set()
        """Hosts to and from which nothing passes."""
        self.split: set[Address] = set()
        """One side of a partition: nothing passes between these and the others."""
        self.loss = 0.0
        self._random = Random(1)
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._num = itertools.count()
        self._ends: dict[tuple[Address, int], tuple[Address, int]] = {}

    def start(
        self,
        number: int,
        *,
        seeds: tuple[int, ...] = (0,),
        config: Config | None = None,
        health: HealthReport | None = None,
        labels: dict[str, str] | None = None,
        epoch: int = 1,
        is_first_run: bool = True,
        has_health: bool = True,
        copied_id: str | None = None,
        copied_address: Address | None = None,
    ) -> Host:
        address = Address(f"10.0.0.{number + 1}", 7977)
        host_id = copied_id or str(uuid.UUID(int=number + 1))
        identity = Identity(host_id, f"host-{number}", epoch, f"boot-{epoch}", is_first_run)
        mesh = Mesh(
            identity=identity,
            config=config or Config(),
            facts=HostFacts(identity.name, identity.boot_id, labels=labels or {}),
            address=copied_address or address,
            sealer=FleetSealer(KEY, "default", bytes([number, epoch]) * 8),
            random=Random(f"{number} {epoch}"),
            now=self.now,
            unix_offset=UNIX - 1000.0,
        )
        seen = (health or healthy(number)) if has_health else None
        peers = [Address(f"10.0.0.{seed + 1}", 7977) for seed in seeds]
        host = Host(number, address, identity, mesh, seen, peers)
        self.hosts = [*[old for old in self.hosts if old.number != number], host]
        self._look(host)
        self._at(self.now, lambda: self._wake(host))
        return host

    def restart(self, host: Host) -> Host:
        host.is_up = False
        return self.start(host.number, health=host.health, epoch=host.identity.epoch + 1, is_first_run=False)

    def cut_power(self, host: Host) -> None:
        host.is_up = False

    def set_health(self, host: Host, report: HealthReport) -> None:
        host.health = report
        host.mesh.set_health(report, self.now)
        self._drain(host)

    def act(self, host: Host, action: Callable[[Mesh], None]) -> None:
        action(host.mesh)
        self._drain(host)

    def run(self, seconds: float) -> None:
        end_at = self.now + seconds
        while self._queue and self._queue[0][0] <= end_at:
            at, _, task = heapq.heappop(self._queue)
            self.now = max(self.now, at)
            task()
        self.now = end_at

    def run_until(self, holds: Callable[[], bool], limit_s: float) -> float:
        """Run until ``holds``; return how many virtual seconds that took."""
        began_at = self.now
        while not holds():
            assert self.now - began_at < limit_s, f"not within {limit_s} s of virtual time"
            self.run(0.1)
        return self.now - began_at

    def up(self) -> list[Host]:
        return [host for host in self.hosts if host.is_up]

    def view(self, host: Host) -> View:
        view = host.mesh.view(self.now)
        self._drain(host)
        return view

    def seen(self, observer: Host, other: Host) -> HostView | None:
        return self.view(observer).host(other.host_id)

    def state(self, observer: Host, other: Host) -> HostState | None:
        seen = self.seen(observer, other)
        return seen.state if seen else None

    def all_see(self, other: Host, state: HostState) -> bool:
        return all(self.state(host, other) is state for host in self.up())

    def _at(self, at: float, task: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (at, next(self._num), task))

    def _look(self, host: Host) -> None:
        if host.is_asleep or host.is_hung:
            self._at(self.now + 5.0, lambda: self._look(host))
        elif host.is_up and host.health is not None:
            host.mesh.set_health(host.health, self.now)
            self._drain(host)
            self._at(self.now + 5.0, lambda: self._look(host))

    def _wake(self, host: Host) -> None:
        if not host.is_up:
            return
        if host.is_asleep or host.is_hung:
            self._at(self.now + 0.1, lambda: self._wake(host))
            return
        if host.mesh.wants_seeds(self.now):
            host.mesh.seed(host.seeds, self.now)
        host.mesh.handle_timer(self.now)
        self._drain(host)
        due_at = host.mesh.next_deadline()
        assert due_at is not None
        self._at(max(due_at, self.now + 0.001), lambda: self._wake(host))

    def _is_cut(self, source: Address, target: Address) -> bool:
        if (source in self.split) != (target in self.split):
            return True
        return not self.cut_off.isdisjoint((source, target))

    def _find(self, address: Address) -> Host | None:
        found = (host for host in self.hosts if host.address == address)
        return next((host for host in found if host.is_up and not host.is_asleep), None)

    def _drain(self, host: Host) -> None:
        for data, target in host.mesh.datagrams_to_send():
            self._send(host, data, target)
        while (action := host.mesh.next_stream_action()) is not None:
            if isinstance(action, OpenStream):
                self._open(host, action.stream_id, action.address)
            elif isinstance(action, SendStream):
                self._write(host, action.stream_id, action.data)
            elif isinstance(action, CloseStream):
                self._close(host, action.stream_id)
        while (event := host.mesh.next_event()) is not None:
            host.events.append(event)

    def _send(self, host: Host, data: bytes, target: Address) -> None:
        def arrive() -> None:
            other = self._find(target)
            if other is not None and not self._is_cut(host.address, target):
                other.mesh.handle_datagram(data, host.address, self.now)
                self._drain(other)

        if self._random.random() >= self.loss:
            self._at(self.now + LATENCY_S, arrive)

    def _open(self, host: Host, stream_id: int, target: Address) -> None:
        def arrive() -> None:
            other = None if self._is_cut(host.address, target) else self._find(target)
            accepted = other.mesh.handle_stream_accepted(host.address, self.now) if other else None
            if other is None or accepted is None:
                host.mesh.handle_stream_closed(stream_id, self.now)
                self._drain(host)
                return
            self._ends[host.address, stream_id] = (target, accepted)
            self._ends[target, accepted] = (host.address, stream_id)
            host.mesh.handle_stream_opened(stream_id, self.now)
            self._drain(host)
            self._drain(other)

        self._at(self.now + LATENCY_S, arrive)

    def _write(self, host: Host, stream_id: int, data: bytes) -> None:
        def arrive() -> None:
            address, other_id = self._ends.get((host.address, stream_id), (host.address, -1))
            other = self._find(address)
            if other is None or other_id < 0 or self._is_cut(host.address, address):
                return
            for start in range(0, len(data), 700):
                other.mesh.handle_stream_data(other_id, data[start : start + 700], self.now)
            self._drain(other)

        self._at(self.now + LATENCY_S, arrive)

    def _close(self, host: Host, stream_id: int) -> None:
        def arrive() -> None:
            address, other_id = self._ends.get((host.address, stream_id), (host.address, -1))
            other = self._find(address)
            if other is not None and other_id >= 0:
                other.mesh.handle_stream_closed(other_id, self.now)
                self._drain(other)

        self._at(self.now + 2 * LATENCY_S, arrive)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def fleet(world: World) -> list[Host]:
    """Four hosts that have met and are ready."""
    hosts = [world.start(number) for number in range(4)]
    world.run_until(lambda: all(world.all_see(host, HostState.READY) for host in hosts), 15.0)
    return hosts
