"""A switched Ethernet that exists in network namespaces only: nothing of it is seen outside them."""

import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

SUBNET = IPv4Network("10.77.0.0/24")
SUBNET_V6 = IPv6Network("fd77::/64")
RULES = "inet harness"
_NO_RULES = f"add table {RULES}\ndelete table {RULES}\n"


class NetworkSetupError(RuntimeError):
    """A tool refused what the network is made of; the message has its words."""


def run_tool(*command: str, stdin: str = "") -> None:
    """Run a tool of the host; its refusal is a `NetworkSetupError`."""
    done = subprocess.run(command, input=stdin, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise NetworkSetupError(f"{' '.join(command)}: {done.stderr.strip()}")


def ip(*arguments: str) -> None:
    """Run `ip` with these arguments."""
    run_tool("ip", *arguments)


@dataclass(frozen=True, slots=True)
class Port:
    """A socket of the switch and the host's end of the cable: `eth0` in the network namespace `netns`."""

    netns: str
    address: str
    address_v6: str
    mac: str
    switch: str
    switch_interface: str

    def unplug(self) -> None:
        """Pull the cable: the host sees its link go down."""
        ip("-n", self.switch, "link", "set", self.switch_interface, "down")

    def drop_percent(self, percent: int) -> None:
        """Lose this share of the packets that arrive; with it on all hosts, each packet is at risk once."""
        self.drop(arriving=[f'iifname "eth0" numgen random mod 100 < {percent}'])

    def drop_from(self, addresses: Iterable[str]) -> None:
        """Lose everything that comes from these addresses; one way, so a partition takes both sides."""
        self.drop(arriving=[f"ip saddr {address}" for address in addresses])

    def drop(self, arriving: Iterable[str] = (), leaving: Iterable[str] = ()) -> None:
        """Lose what matches one of these nftables expressions, on the way in or out, and nothing else."""
        hooks = {"input": arriving, "output": leaving}
        self.load(
            _NO_RULES
            + f"add table {RULES}\n"
            + "".join(
                f"add chain {RULES} {hook} {{ type filter hook {hook} priority -300; }}\n"
                + "".join(f"add rule {RULES} {hook} {match} drop\n" for match in matches)
                for hook, matches in hooks.items()
            )
        )

    def heal(self) -> None:
        """Plug the cable in and lose nothing any more."""
        ip("-n", self.switch, "link", "set", self.switch_interface, "up")
        self.load(_NO_RULES)

    def load(self, script: str) -> None:
        """Have nftables take a script in the host's namespace."""
        run_tool("ip", "netns", "exec", self.netns, "nft", "-f", "-", stdin=script)


class Network:
    """A switch in a namespace of its own, 10.77.0.1, with a port for each host; `close` leaves nothing."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._switch = f"{prefix}-switch"
        self._free = SUBNET.hosts()
        self._netns: list[str] = []
        gateway = next(self._free)
        try:
            self._add_netns("switch")
            ip("-n", self._switch, "link", "add", "br0", "type", "bridge", "forward_delay", "0")
            ip("-n", self._switch, "address", "add", f"{gateway}/{SUBNET.prefixlen}", "dev", "br0")
            ip("-n", self._switch, "link", "set", "br0", "up")
        except BaseException:
            self.close()
            raise
        self._gateway = str(gateway)

    def add_port(self, host: str) -> Port:
        """Plug in a host with an address and a MAC address of its own, and the switch as default route."""
        address = next(self._free)
        number = int(address) - int(SUBNET.network_address)
        port = Port(
            netns=self._add_netns(host),
            address=str(address),
            address_v6=str(SUBNET_V6[number]),
            mac=f"02:47:50:55:00:{number:02x}",
            switch=self._switch,
            switch_interface=f"port{number}",
        )
        veth = ("link", "add", port.switch_interface, "type", "veth")
        ip("-n", self._switch, *veth, "peer", "name", "eth0", "address", port.mac, "netns", port.netns)
        ip("-n", self._switch, "link", "set", port.switch_interface, "master", "br0", "up")
        ip("-n", port.netns, "address", "add", f"{address}/{SUBNET.prefixlen}", "dev", "eth0")
        # Without duplicate address detection: it would hold the address back for a second.
        with_v6 = ("address", "add", f"{port.address_v6}/{SUBNET_V6.prefixlen}", "dev", "eth0", "nodad")
        ip("-n", port.netns, *with_v6)
        ip("-n", port.netns, "link", "set", "eth0", "up")
        ip("-n", port.netns, "route", "add", "default", "via", self._gateway)
        return port

    def close(self) -> None:
        """Delete the namespaces, and with them all interfaces, addresses and rules."""
        while self._netns:
            with suppress(NetworkSetupError):
                ip("netns", "delete", self._netns.pop())

    def add_line(self, host: str, router: Port, subnet: IPv4Network) -> str:
        """Connect one more host to a router, off the switch; return its namespace.

        The router has the subnet's first address on `inside`, the host the second one on its `eth0`.
        """
        netns = self._add_netns(host)
        near, far, *_ = subnet.hosts()
        veth = ("link", "add", "inside", "type", "veth", "peer", "name", "eth0", "netns", netns)
        ip("-n", router.netns, *veth)
        for side, interface, address in ((router.netns, "inside", near), (netns, "eth0", far)):
            ip("-n", side, "address", "add", f"{address}/{subnet.prefixlen}", "dev", interface)
            ip("-n", side, "link", "set", interface, "up")
        ip("-n", netns, "route", "add", "default", "via", str(near))
        run_tool("ip", "netns", "exec", router.netns, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        return netns

    def _add_netns(self, host: str) -> str:
        name = f"{self._prefix}-{host}"
        ip("netns", "add", name)
        self._netns.append(name)
        ip("-n", name, "link", "set", "lo", "up")
        return name
