"""The demo's hosts: real daemons on loopback with simulated cards, each in a directory of its own."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from gpumesh.cli.client import DaemonClient
from gpumesh.errors import GpumeshError, UnreachableError

STOP_S: Final = 10.0
_PORTS: Final = range(10_240, 32_768)


@dataclass(frozen=True, slots=True)
class DemoHost:
    """Where one host of the demo lives."""

    name: str
    directory: Path
    gossip_port: int
    http_port: int
    profiles: tuple[str, ...]
    """The simulated cards."""

    @property
    def config_path(self) -> Path:
        """Its gpumesh.toml."""
        return self.directory / "gpumesh.toml"

    @property
    def faults_path(self) -> Path:
        """The file by which its simulated cards are broken."""
        return self.directory / "faults.toml"

    @property
    def log_path(self) -> Path:
        """Its daemon's log."""
        return self.directory / "daemon.log"

    def client(self) -> DaemonClient:
        """Return a client for its HTTP face."""
        return DaemonClient(f"http://127.0.0.1:{self.http_port}", f"demo host {self.name}")


@dataclass(slots=True)
class DemoFleet:
    """Starts the hosts, breaks them, and ends them all when the block ends, whatever happened."""

    directory: Path
    hosts: dict[str, DemoHost] = field(default_factory=dict)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def add(self, name: str, profiles: tuple[str, ...]) -> DemoHost:
        """Write the configuration of one more host; the first one is the seed of the others."""
        gossip_port, http_port = _free_ports(2)
        host = DemoHost(name, self.directory / name, gossip_port, http_port, profiles)
        host.directory.mkdir(parents=True)
        seed = next(iter(self.hosts.values()), host)
        host.config_path.write_text(_config_text(host, seed))
        host.faults_path.write_text("")
        self.hosts[name] = host
        return host

    def start(self, name: str) -> None:
        """Start a host's daemon."""
        host = self.hosts[name]
        with host.log_path.open("ab") as log:
            self._processes[name] = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", "gpumesh.cli.main", "--config", str(host.config_path), "daemon"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def kill(self, name: str) -> None:
        """End a host's daemon as a power cut would: no goodbye."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def lose_gpu(self, name: str, index: int) -> None:
        """Let one simulated card fall off the bus."""
        _replace(self.hosts[name].faults_path, f"[gpu.{index}]\nlost = true\n")

    def fleet_as_seen_by(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the hosts by name as one of them sees them; empty while it does not answer yet.

        Errors: :class:`GpumeshError` with the end of its log if its daemon has ended.
        """
        process = self._processes.get(name)
        if process is not None and process.poll() is not None:
            tail = self.hosts[name].log_path.read_text(errors="replace")[-2000:]
            raise GpumeshError(f"demo host {name} ended with code {process.returncode}:\n{tail}")
        try:
            document = self.hosts[name].client().get("/v1/fleet")
        except UnreachableError:
            return {}
        return {str(host["name"]): host for host in document["hosts"]}

    def running(self) -> list[str]:
        """Return the names of the hosts whose daemons run."""
        return list(self._processes)

    def stop(self) -> dict[str, int]:
        """Ask every daemon to stop; return the exit codes. Those that do not within 10 s are killed."""
        for process in self._processes.values():
            process.terminate()
        give_up_at = time.monotonic() + STOP_S
        codes = {name: _end(process, give_up_at) for name, process in self._processes.items()}
        self._processes.clear()
        return codes


@contextlib.contextmanager
def ended_by_signals(fleet: DemoFleet) -> Iterator[None]:
    """End the fleet's daemons also when the demo itself is asked to stop."""

    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        fleet.stop()
        signal.signal(signal.SIGTERM, before)


def _end(process: subprocess.Popen[bytes], give_up_at: float) -> int:
    """Wait for the process, kill it when the time is up, and return its exit code."""
    try:
        return process.wait(max(0.1, give_up_at - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _config_text(host: DemoHost, seed: DemoHost) -> str:
    """Return the host's configuration: the product's own times, five times as fast."""
    quoted = json.dumps  # a JSON string is a TOML string
    return f"""\
[host]
name = {quoted(host.name)}
state_dir = {quoted(str(host.directory / "state"))}
labels = {{ demo = "yes" }}
[gossip]
fleet = "demo"
bind = "127.0.0.1:{host.gossip_port}"
seeds = ["127.0.0.1:{seed.gossip_port}"]
key_file = {quoted(str(host.directory / "fleet.key"))}
profile = "local"
[lease]
heartbeat = "1s"
ttl = "6s"
cooldown = "5s"
[gpu]
backend = "simulated"
simulated = {quoted(list(host.profiles))}
simulated_faults = {quoted(str(host.faults_path))}
interval = "1s"
[http]
listen = "127.0.0.1:{host.http_port}"
[control]
socket = {quoted(str(host.directory / "ctl"))}
"""


def _free_ports(number: int) -> list[int]:
    """Return ports on loopback that nobody holds, for UDP and TCP alike.

    They lie below those that the kernel gives to outgoing connections: one of these could be given away
    before the daemon takes it.
    """
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        while len(ports) < number:
            port = _PORTS.start + secrets.randbelow(len(_PORTS))
            stream = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            datagram = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            with contextlib.suppress(OSError):
                stream.bind(("127.0.0.1", port))
                datagram.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


def _replace(path: Path, content: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(content)
    temporary.replace(path)
