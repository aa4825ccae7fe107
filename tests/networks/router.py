"""A router between the switch and one host: rewrites ports, forwards one, carries small packets only."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from ipaddress import IPv4Network

from tests.machines.network import Network, Port, ip
from tests.networks.daemons import PORT

SUBNET = IPv4Network("10.78.0.0/24")
_NUM_PORTS = 1000
_NAT = "ip nat"
_BLACK_HOLE = "ip blackhole"
_WITNESS = "ip witness"


@dataclass(frozen=True, slots=True)
class Router:
    """The router's port on the switch, and the host behind it: its address and its namespace."""

    port: Port
    hidden_netns: str
    hidden_address: str

    @classmethod
    def before(cls, host: str, network: Network) -> Router:
        """Add a router to the switch, and a host behind it that the switch's hosts know no way to."""
        port = network.add_port("router")
        return cls(port, network.add_line(host, port, SUBNET), str(SUBNET[2]))

    def lead_in(self, *ports: Port) -> None:
        """Tell hosts of the switch that the hidden one is reached by way of this router."""
        for port in ports:
            ip("-n", port.netns, "route", "add", str(SUBNET), "via", self.port.address)

    def masquerade(self, first_port: int, *, forwards: bool) -> None:
        """Give what the hidden host sends this router's address and random ports, a thousand from the first.

        `forwards`: what comes for the fleet's port goes to the hidden host; otherwise nothing new comes in.
        Whom the router knew is forgotten, as when it restarts.
        """
        ports = f"{first_port}-{first_port + _NUM_PORTS - 1}"
        way_in = f"dnat to {self.hidden_address}"
        rules = [f'post oifname "eth0" meta l4proto {{ tcp, udp }} masquerade to :{ports} random']
        if forwards:
            rules += [f'pre iifname "eth0" {kind} dport {PORT} {way_in}' for kind in ("tcp", "udp")]
        else:
            rules += ['passing iifname "eth0" ct state new drop']
        self.port.load(
            f"add table {_NAT}\ndelete table {_NAT}\nadd table {_NAT}\n"
            f"add chain {_NAT} post {{ type nat hook postrouting priority 100; }}\n"
            f"add chain {_NAT} pre {{ type nat hook prerouting priority -100; }}\n"
            f"add chain {_NAT} passing {{ type filter hook forward priority 0; }}\n"
            + "".join(f"add rule {_NAT} {rule}\n" for rule in rules)
        )
        # Masquerading forgets its connections when the interface goes down.
        ip("-n", self.port.netns, "link", "set", "eth0", "down")
        ip("-n", self.port.netns, "link", "set", "eth0", "up")

    def swallow_above(self, mtu_bytes: int, *, host_knows: bool) -> None:
        """Carry no larger packets between the hidden host and the switch, and do not say so.

        `host_knows`: the hidden host has the line's size as its own; otherwise what it sends is lost, too.
        """
        ip("-n", self.port.netns, "link", "set", "inside", "mtu", str(mtu_bytes))
        if host_knows:
            ip("-n", self.hidden_netns, "link", "set", "eth0", "mtu", str(mtu_bytes))
        # Segments that the kernel keeps together for speed would slip through as one.
        for netns in (self.hidden_netns, self.port.netns):
            ip("-n", netns, "link", "set", "eth0", "gso_max_segs", "1")
        self.port.load(
            f"add table {_BLACK_HOLE}\n"
            f"add chain {_BLACK_HOLE} leaving {{ type filter hook output priority 0; }}\n"
            f"add rule {_BLACK_HOLE} leaving icmp type destination-unreachable drop\n"
        )


def note_sources(port: Port) -> None:
    """Have a host's namespace note from which ports its peers' datagrams come."""
    port.load(
        f"add table {_WITNESS}\n"
        f"add set {_WITNESS} ports {{ type inet_service; flags dynamic; size 65535; timeout 1h; }}\n"
        f"add chain {_WITNESS} arriving {{ type filter hook input priority -400; }}\n"
        f"add rule {_WITNESS} arriving udp dport {PORT} add @ports {{ udp sport }}\n"
    )


def sources_noted(port: Port) -> set[int]:
    """Return the ports noted so far."""
    listed = subprocess.run(
        ["ip", "netns", "exec", port.netns, "nft", "-j", "list", "set", *_WITNESS.split(), "ports"],
        check=True,
        capture_output=True,
        text=True,
    )
    found = next(item["set"] for item in json.loads(listed.stdout)["nftables"] if "set" in item)
    return {item["elem"]["val"] if isinstance(item, dict) else item for item in found.get("elem", ())}
