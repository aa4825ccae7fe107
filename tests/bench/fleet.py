"""A fleet of real processes of one make on loopback: started, watched by their logs, hurt, always ended."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from tests.bench.makes import Make, Place

POLL_S = 0.05
_FIRST_PORT, _LAST_PORT = 10_000, 32_000
"""Below the range from which the kernel lends ports to connections."""


class BenchError(Exception):
    """The bench cannot go on; the message says why."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What one process said of another, and when it was read."""

    observer: str
    member: str
    is_failed: bool
    at: float


@dataclass(slots=True)
class Fleet:
    """The processes of one make, by name."""

    make: Make
    directory: Path
    places: dict[str, Place] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    sights: list[Sight] = field(default_factory=list)
    failed: dict[str, set[str]] = field(default_factory=dict)
    """By observer: whom it shows failed now."""
    known: dict[str, set[str]] = field(default_factory=dict)
    """By observer: whom it shows alive now."""
    members: dict[str, str] = field(default_factory=dict)
    """By process: what its peers call it."""
    _logs: dict[str, BinaryIO] = field(default_factory=dict)
    _halves: dict[str, bytes] = field(default_factory=dict)

    def start(self, number: int) -> None:
        """Start ``number`` processes; the first one is the seed of the others."""
        ports = iter(free_ports(2 * number))
        for index in range(number):
            name = f"h{index:03}"
            place = Place(name, self.directory / self.make.name / name, next(ports), next(ports))
            place.directory.mkdir(parents=True)
            self.places[name] = place
            self._launch(place)

    def _launch(self, place: Place) -> None:
        seed = next(iter(self.places.values()))
        log = place.directory / "log"
        with log.open("ab") as output:
            self.processes[place.name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.make.command(place, seed)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._logs[place.name] = log.open("rb")
        self.failed[place.name], self.known[place.name] = set(), set()

    def poll(self) -> None:
        """Read what the logs have to say since the last time."""
        for observer, log in self._logs.items():
            data = self._halves.pop(observer, b"") + log.read()
            *lines, half = data.split(b"\n")
            if half:
                self._halves[observer] = half
            for line in lines:
                self._take(observer, line.decode(errors="replace"))

    def _take(self, observer: str, line: str) -> None:
        news = self.make.read(line)
        if news is None:
            return
        member, is_failed = news
        self.sights.append(Sight(observer, member, is_failed, time.monotonic()))
        (self.failed if is_failed else self.known)[observer].add(member)
        (self.known if is_failed else self.failed)[observer].discard(member)

    def is_settled(self) -> bool:
        """Whether every process shows every other one alive."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                tail = (self.places[name].directory / "log").read_text(errors="replace")[-1500:]
                raise BenchError(f"{self.make.name} {name} ended with code {process.returncode}:\n{tail}")
        self.members = {name: self.make.member(self.places[name]) for name in self.processes}
        everybody = set(self.members.values())
        if "" in everybody:
            return False
        return all(everybody - {own} <= self.known[name] for name, own in self.members.items())

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a process a signal."""
        self.processes[name].send_signal(number)

    def bury(self, name: str) -> None:
        """Kill a process and count it out."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()
        self._logs.pop(name).close()

    def close(self) -> None:
        """End every process, whatever state it is in."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
        self.processes.clear()
        for log in self._logs.values():
            log.close()
        self._logs.clear()


@contextlib.contextmanager
def running(makes: Sequence[Make], number: int, directory: Path, settle_s: float) -> Iterator[list[Fleet]]:
    """Run a fleet of ``number`` processes of each make side by side until the block ends."""
    fleets = [Fleet(make, directory / f"{number}-{os.urandom(4).hex()}") for make in makes]
    try:
        for fleet in fleets:
            fleet.start(number)
        await_settled(fleets, 60 + 2.0 * number * len(fleets))
        watch(fleets, settle_s)
        yield fleets
    finally:
        for fleet in fleets:
            fleet.close()


def await_settled(fleets: Sequence[Fleet], within_s: float) -> None:
    """Wait until all fleets know themselves whole. Errors: BenchError naming who is short of whom."""
    give_up_at = time.monotonic() + within_s
    while True:
        watch(fleets, 0.5)
        if all(fleet.is_settled() for fleet in fleets):
            return
        if time.monotonic() > give_up_at:
            short = {
                fleet.make.name: {name: len(fleet.known[name]) for name in fleet.processes}
                for fleet in fleets
                if not fleet.is_settled()
            }
            raise BenchError(f"not everybody met everybody within {within_s:g} s: {short}")


def watch(fleets: Sequence[Fleet], for_s: float) -> None:
    """Read the logs for a while."""
    until = time.monotonic() + for_s
    while (left_s := until - time.monotonic()) > 0:
        time.sleep(min(POLL_S, left_s))
        for fleet in fleets:
            fleet.poll()


def free_ports(number: int) -> list[int]:
    """Return ports on loopback that nobody holds, for datagrams and streams alike."""
    start = random.randrange(_FIRST_PORT, _LAST_PORT - 4 * number)
    ports: list[int] = []
    for port in range(start, _LAST_PORT):
        with (
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram,
            contextlib.suppress(OSError),
        ):
            stream.bind(("127.0.0.1", port))
            datagram.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == number:
            return ports
    raise BenchError(f"no {number} free ports between {start} and {_LAST_PORT}")
