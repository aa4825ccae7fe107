"""Real daemons with simulated cards, one in each network namespace, with the shipped `lan` profile.

daemons = Daemons(directory)
daemons.add("a", port.netns)
daemons.start("a")
daemons.fleet_as_seen_by("a")
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpumesh.cli.client import DaemonClient
from gpumesh.config.keyring import new_key
from gpumesh.errors import UnreachableError

PORT = 7977
PATIENCE_S = 240.0
"""For what must come to pass: far more than it takes, for machines with two busy processors."""


@dataclass(frozen=True, slots=True)
class Host:
    """A daemon's files and its network namespace."""

    name: str
    netns: str
    directory: Path

    @property
    def config_path(self) -> Path:
        return self.directory / "gpumesh.toml"

    @property
    def log_path(self) -> Path:
        return self.directory / "daemon.log"

    @property
    def client(self) -> DaemonClient:
        """A client for the daemon's HTTP face, to be used inside its namespace."""
        return DaemonClient("http://127.0.0.1:9477", f"host {self.name}")

    def get(self, path: str) -> dict[str, Any]:
        with entered(self.netns):
            return self.client.get(path)


@dataclass(slots=True)
class Daemons:
    """The daemons of one test; `stop` ends them all."""

    directory: Path
    key: str = field(default_factory=new_key)
    hosts: dict[str, Host] = field(default_factory=dict)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def add(
        self,
        name: str,
        netns: str,
        seeds: Sequence[str] = (),
        *,
        bind: str = f"0.0.0.0:{PORT}",
        advertise: str = "",
        cards: Sequence[str] = ("h100",),
    ) -> Host:
        """Write one more host's configuration: shipped times, a key, simulated cards."""
        host = Host(name, netns, self.directory / name)
        host.directory.mkdir(parents=True)
        quoted = json.dumps  # a JSON string is a TOML string
        key_file = host.directory / "fleet.key"
        key_file.write_text(self.key + "\n")
        key_file.chmod(0o600)
        host.config_path.write_text(
            f"[host]\nname = {quoted(name)}\nstate_dir = {quoted(str(host.directory / 'state'))}\n"
            f'[gossip]\nfleet = "networks"\nbind = {quoted(bind)}\nadvertise = {quoted(advertise)}\n'
            f"seeds = {quoted(list(seeds))}\nkey_file = {quoted(str(key_file))}\n"
            f'[gpu]\nbackend = "simulated"\nsimulated = {quoted(list(cards))}\n'
            f"[control]\nsocket = {quoted(str(host.directory / 'ctl'))}\n"
        )
        self.hosts[name] = host
        return host

    def start(self, *names: str) -> None:
        """Start daemons, each inside its namespace; the process is the daemon itself."""
        for name in names:
            host = self.hosts[name]
            with host.log_path.open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    [
                        *("nsenter", f"--net=/run/netns/{host.netns}"),
                        *(sys.executable, "-m", "gpumesh.cli.main"),
                        *("--config", str(host.config_path), "daemon"),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "PYTHONUNBUFFERED": "1"},
                )

    def kill(self, name: str) -> None:
        """End a daemon with kill -9."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """End all daemons, whatever state they are in."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def running(self) -> list[str]:
        return list(self._processes)

    def fleet_as_seen_by(self, name: str) -> dict[str, dict[str, Any]]:
        """The hosts by name as one of them sees them; empty while it does not answer yet."""
        process = self._processes[name]
        if process.poll() is not None:
            log = self.hosts[name].log_path.read_text(errors="replace")
            raise AssertionError(f"{name} ended with code {process.returncode}:\n{log[-2000:]}")
        with suppress(UnreachableError):
            return {str(host["name"]): host for host in self.hosts[name].get("/v1/fleet")["hosts"]}
        return {}

    def seen(self, key: str, names: Iterable[str] = ()) -> dict[str, dict[str, str]]:
        """What each running daemon shows of each host under `key`: by observer, then by host."""
        return {
            observer: {name: str(host[key]) for name, host in self.fleet_as_seen_by(observer).items()}
            for observer in (names or self.running())
        }

    def await_seen(self, key: str, expected: dict[str, str], *, names: Iterable[str] = ()) -> float:
        """Wait until the running daemons, or those named, show this of these hosts; seconds taken."""
        observers = list(names) or self.running()
        return until(
            lambda: all(expected.items() <= view.items() for view in self.seen(key, observers).values()),
            lambda: f"{key} {expected}; seen: {self.seen(key, observers)}",
        )

    def await_ready(self) -> float:
        """Wait until all running daemons see each other ready; seconds taken."""
        return self.await_seen("state", dict.fromkeys(self.running(), "ready"))

    def events(self, name: str, kind: str) -> list[dict[str, Any]]:
        """The events of one kind that a daemon has told since its start."""
        host = self.hosts[name]
        with entered(host.netns):
            told = [event.data for event in host.client.events([("since", "start"), ("follow", "false")])]
        return [event for event in told if event["kind"] == kind]

    def failures(self) -> list[str]:
        """Who was failed by whom, according to all running daemons."""
        return [
            f"{name} of {event['host']}: {event}"
            for name in self.running()
            for event in self.events(name, "host.failed")
        ]


@contextmanager
def entered(netns: str) -> Iterator[None]:
    """Have this thread open its sockets in another network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as before, open(f"/run/netns/{netns}") as there:  # noqa: PTH123
        _set_namespace(libc, there.fileno())
        try:
            yield
        finally:
            _set_namespace(libc, before.fileno())


def _set_namespace(libc: ctypes.CDLL, descriptor: int) -> None:
    clone_newnet = 0x40000000
    if libc.setns(descriptor, clone_newnet) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def until(holds: Callable[[], bool], what: Callable[[], object], within_s: float = PATIENCE_S) -> float:
    """Wait until `holds`; seconds taken. `what` tells what did not come."""
    started_at = time.monotonic()
    while not holds():
        if time.monotonic() - started_at > within_s:
            raise AssertionError(f"never came: {what()}")
        time.sleep(0.2)
    return time.monotonic() - started_at
