"""A switched Ethernet that exists in network namespaces only: nothing of it is seen outside them."""

import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network

SUBNET = IPv4Network("10.77.0.0/24")
_RULES = "inet harness"


class NetworkSetupError(RuntimeError):
    """A tool refused what the network is made of; the message has its words."""


def _run(*command: str, stdin: str = "") -> None:
    done = subprocess.run(command, input=stdin, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise NetworkSetupError(f"{' '.join(command)}: {done.stderr.strip()}")


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


@dataclass(frozen=True, slots=True)
class Port:
    """A socket of the switch and the host's end of the cable: `eth0` in the network namespace `netns`."""

    netns: str
    address: str
    mac: str
    switch: str
    switch_interface: str

    def unplug(self) -> None:
        """Pull the cable: the host sees its link go down."""
        _ip("-n", self.switch, "link", "set", self.switch_interface, "down")

    def drop_percent(self, percent: int) -> None:
        """Lose this share of the packets that arrive; with it on all hosts, each packet is at risk once."""
        self._drop([f'iifname "eth0" numgen random mod 100 < {percent} drop'])

    def drop_from(self, addresses: Iterable[str]) -> None:
        """Lose everything that comes from these addresses; one way, so a partition takes both sides."""
        self._drop([f"ip saddr {address} drop" for address in addresses])

    def heal(self) -> None:
        """Plug the cable in and lose nothing any more."""
        _ip("-n", self.switch, "link", "set", self.switch_interface, "up")
        self._load(f"add table {_RULES}\ndelete table {_RULES}\n")

    def _drop(self, rules: list[str]) -> None:
        chain = f"{_RULES} arriving"
        self._load(
            f"add table {_RULES}\ndelete table {_RULES}\nadd table {_RULES}\n"
            f"add chain {chain} {{ type filter hook input priority -300; }}\n"
            + "".join(f"add rule {chain} {rule}\n" for rule in rules)
        )

    def _load(self, script: str) -> None:
        _run("ip", "netns", "exec", self.netns, "nft", "-f", "-", stdin=script)


class Network:
    """A switch in a namespace of its own, 10.77.0.1, with a port for each host; `close` leaves nothing."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._switch = f"{prefix}-switch"
        self._free = SUBNET.hosts()
        self._netns: list[str] = []
        gateway = next(self._free)
        try:
            self._add_netns(self._switch)
            _ip("-n", self._switch, "link", "add", "br0", "type", "bridge", "forward_delay", "0")
            _ip("-n", self._switch, "address", "add", f"{gateway}/{SUBNET.prefixlen}", "dev", "br0")
            _ip("-n", self._switch, "link", "set", "br0", "up")
        except BaseException:
            self.close()
            raise
        self._gateway = str(gateway)

    def add_port(self, host: str) -> Port:
        """Plug in a host with an address and a MAC address of its own, and the switch as default route."""
        address = next(self._free)
        number = int(address) - int(SUBNET.network_address)
        port = Port(
            netns=f"{self._prefix}-{host}",
            address=str(address),
            mac=f"02:47:50:55:00:{number:02x}",
            switch=self._switch,
            switch_interface=f"port{number}",
        )
        self._add_netns(port.netns)
        veth = ("link", "add", port.switch_interface, "type", "veth")
        _ip("-n", self._switch, *veth, "peer", "name", "eth0", "address", port.mac, "netns", port.netns)
        _ip("-n", self._switch, "link", "set", port.switch_interface, "master", "br0", "up")
        _ip("-n", port.netns, "address", "add", f"{address}/{SUBNET.prefixlen}", "dev", "eth0")
        _ip("-n", port.netns, "link", "set", "eth0", "up")
        _ip("-n", port.netns, "route", "add", "default", "via", self._gateway)
        return port

    def close(self) -> None:
        """Delete the namespaces, and with them all interfaces, addresses and rules."""
        while self._netns:
            with suppress(NetworkSetupError):
                _ip("netns", "delete", self._netns.pop())

    def _add_netns(self, name: str) -> None:
        _ip("netns", "add", name)
        self._netns.append(name)
        _ip("-n", name, "link", "set", "lo", "up")
