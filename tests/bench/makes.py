"""The three makes that are compared: how one process of each is started, and what its log says of peers."""

import base64
import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpumesh.config.keyring import new_key

KINSHIP = "kinship==0.4.0"
AGENT = Path(__file__).with_name("kinship_agent.py")


@dataclass(frozen=True, slots=True)
class Place:
    """Where one process lives: all of it on loopback, each with a key."""

    name: str
    directory: Path
    gossip_port: int
    side_port: int
    """HTTP for gpumesh, RPC for serf, unused by kinship."""

    @property
    def gossip(self) -> str:
        return f"127.0.0.1:{self.gossip_port}"

    @property
    def side(self) -> str:
        return f"127.0.0.1:{self.side_port}"


class Make(Protocol):
    """One make of membership."""

    @property
    def name(self) -> str: ...

    def command(self, place: Place, seed: Place) -> list[str]:
        """Write what the process needs into its directory and return its command line."""
        ...

    def member(self, place: Place) -> str:
        """Return what the logs of peers call the process at ``place``; empty while it has no name yet."""
        ...

    def read(self, line: str) -> tuple[str, bool] | None:
        """Return the member that a line of the log is about and whether it is failed; None: no such news."""
        ...


class Gpumesh:
    """The daemon as it ships, profile ``lan``, with one simulated card."""

    name = "gpumesh"

    def __init__(self) -> None:
        self.key = new_key()

    def command(self, place: Place, seed: Place) -> list[str]:
        key_file = place.directory / "fleet.key"
        key_file.write_text(self.key + "\n")
        key_file.chmod(0o600)
        quoted = json.dumps  # a JSON string is a TOML string
        config = place.directory / "gpumesh.toml"
        config.write_text(f"""\
[host]
name = {quoted(place.name)}
state_dir = {quoted(str(place.directory / "state"))}
[gossip]
fleet = "bench"
bind = "{place.gossip}"
seeds = ["{seed.gossip}"]
key_file = {quoted(str(key_file))}
profile = "lan"
[gpu]
backend = "simulated"
simulated = ["h100"]
[http]
listen = "{place.side}"
[control]
socket = {quoted(str(place.directory / "ctl"))}
[log]
format = "json"
""")
        return [sys.executable, "-m", "gpumesh.cli.main", "--config", str(config), "daemon"]

    def member(self, place: Place) -> str:
        identity = place.directory / "state/identity.json"
        return str(json.loads(identity.read_text())["host_id"]) if identity.exists() else ""

    def read(self, line: str) -> tuple[str, bool] | None:
        if '"event": "host.' not in line:
            return None
        document = json.loads(line)
        kinds = {"host.joined": False, "host.refuted": False, "host.failed": True}
        kind = str(document["event"])
        return (str(document["host_id"]), kinds[kind]) if kind in kinds else None


class Serf:
    """``serf agent`` of the distribution's package, profile ``lan``."""

    name = "serf"

    def __init__(self) -> None:
        self._key = base64.b64encode(os.urandom(32)).decode()

    def command(self, place: Place, seed: Place) -> list[str]:
        return [
            "serf",
            "agent",
            f"-node={place.name}",
            f"-bind={place.gossip}",
            f"-rpc-addr={place.side}",
            "-profile=lan",
            f"-encrypt={self._key}",
            f"-retry-join={seed.gossip}",
            "-retry-interval=1s",
        ]

    def member(self, place: Place) -> str:
        return place.name

    def read(self, line: str) -> tuple[str, bool] | None:
        _, is_there, news = line.partition("serf: EventMember")
        if not is_there:
            return None
        kinds = {"Join:": False, "Update:": False, "Failed:": True}
        kind, _, rest = news.partition(" ")
        return (rest.split()[0], kinds[kind]) if kind in kinds else None


class Kinship:
    """kinship's cluster in a Python process that prints its events, preset ``lan``."""

    name = "kinship"

    def __init__(self, python: Path) -> None:
        self._python = python
        self._key = base64.b64encode(os.urandom(32)).decode()

    def command(self, place: Place, seed: Place) -> list[str]:
        return [str(self._python), str(AGENT), place.name, place.gossip, seed.gossip, self._key]

    def member(self, place: Place) -> str:
        return place.name

    def read(self, line: str) -> tuple[str, bool] | None:
        kinds = {"MemberJoined": False, "MemberRecovered": False, "MemberDead": True}
        kind, _, member = line.strip().partition(" ")
        return (member, kinds[kind]) if kind in kinds else None


def makes(wanted: tuple[str, ...], cache: Path) -> tuple[list[Make], list[str]]:
    """Return the makes that can run here, and why others of those wanted cannot."""
    found: list[Make] = []
    missing: list[str] = []
    for name in wanted:
        if name == "gpumesh":
            found.append(Gpumesh())
        elif name == "serf":
            if shutil.which("serf"):
                found.append(Serf())
            else:
                missing.append("serf is not installed: apt install serf")
        elif (python := _kinship_python(cache)) is not None:
            found.append(Kinship(python))
        else:
            missing.append(f"{KINSHIP} cannot be installed here (it needs Python 3.11 and a package index)")
    return found, missing


def _kinship_python(cache: Path) -> Path | None:
    """Return an interpreter that has kinship, in an environment of its own; None if that fails."""
    home = cache / "bench-kinship"
    python = home / "bin/python"
    ready = home / "ready"
    if not ready.exists():
        venv.create(home, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", KINSHIP]
        if subprocess.run(pip, check=False).returncode:
            return None
        ready.touch()
    return python
