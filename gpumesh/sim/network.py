"""The wire between simulated hosts: who sits at which address, and datagrams on their way."""

from __future__ import annotations

from collections import Counter

from gpumesh.model import Address
from gpumesh.sim.agenda import Agenda
from gpumesh.sim.conditions import Conditions
from gpumesh.sim.nat import Nat
from gpumesh.sim.port import Port


class Network:
    """Carries datagrams between ports under the given conditions and counts what it does.

    ``counts`` holds ``datagrams``, ``datagram_bytes`` and ``lost``; ``sent_bytes`` the bytes each host sent,
    streams included.
    """

    def __init__(self, agenda: Agenda, conditions: Conditions) -> None:
        self.agenda = agenda
        self.conditions = conditions
        self.counts: Counter[str] = Counter()
        self.sent_bytes: Counter[int] = Counter()
        self.nat = Nat()
        self._ports: dict[Address, Port] = {}

    def attach(self, port: Port) -> None:
        """Put a host at its address; whoever was there before is no longer reached."""
        self._ports[port.address] = port

    def detach(self, address: Address) -> None:
        """Leave nobody at this address."""
        self._ports.pop(address, None)

    def port_at(self, address: Address) -> Port | None:
        """Return who sits at this address."""
        return self._ports.get(address)

    def send_datagram(self, sender: Port, data: bytes, destination: Address) -> None:
        """Let one datagram go; like UDP, this tells the sender nothing."""
        self.counts["datagrams"] += 1
        self.counts["datagram_bytes"] += len(data)
        self.sent_bytes[sender.number] += len(data)
        source = self.nat.source_of(sender, destination, self.agenda.now)
        target = self._target(sender, destination, source)
        if target is None or self.conditions.loses_datagram(sender.number, target.number, len(data)):
            self.counts["lost"] += 1
            return
        for delay_s in self.conditions.draw_datagram_delays_s():
            self.agenda.after(delay_s, self._arrive, sender, source, data, destination)

    def _target(self, sender: Port, destination: Address, source: Address) -> Port | None:
        port = self._ports.get(destination)
        if port is None:
            return self.nat.owner_of(destination, source, self.agenda.now)
        return None if self.nat.shuts_out(sender.number, port.number) else port

    def _arrive(self, sender: Port, source: Address, data: bytes, destination: Address) -> None:
        target = self._target(sender, destination, source)
        if target is None or not target.is_up:
            self.counts["lost"] += 1
        elif target.is_listening:
            target.deliver_datagram(data, source)
        elif not self.conditions.loses_datagram(target.number, sender.number, 0):
            # The kernel of a host whose daemon died answers for it with ICMP port unreachable.
            self.agenda.after(self.conditions.draw_delay_s(), sender.deliver_unreachable, destination)
