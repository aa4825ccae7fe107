"""A router between some hosts and the others that rewrites where their datagrams come from."""

from __future__ import annotations

from gpumesh.model import Address
from gpumesh.sim.port import Port

FIRST_PORT = 20_000


class Nat:
    """Gives each pair of a hidden host and its peer a port of its own, for as long as it is in use.

    The hidden hosts' own addresses are forwarded to them, as an operator who wants them in a fleet sets up,
    unless it is closed. What is sent to a rewritten address reaches them only while the router remembers it,
    and from that peer.
    """

    MAPPING_S = 30.0
    """How long a mapping outlives its last use: what Linux does for UDP."""
    HOST = "198.51.100.1"

    def __init__(self) -> None:
        self.hidden: set[int] = set()
        """Numbers of the hosts behind it."""
        self.is_closed = False
        """Nothing that is new comes in, whatever the address."""
        self._ports: dict[tuple[int, Address], tuple[Address, float]] = {}
        self._owners: dict[Address, tuple[Port, Address]] = {}
        self._num_mapped = 0

    def shuts_out(self, sender: int, target: int) -> bool:
        """Whether one host cannot open anything towards another's own address. Takes their numbers."""
        return self.is_closed and target in self.hidden and sender not in self.hidden

    def source_of(self, sender: Port, destination: Address, now: float) -> Address:
        """Return where a datagram seems to come from."""
        if sender.number not in self.hidden:
            return sender.address
        key = (sender.number, destination)
        mapped = self._ports.get(key)
        if mapped is None or now - mapped[1] > self.MAPPING_S:
            self._num_mapped += 1
            public = Address(self.HOST, FIRST_PORT + self._num_mapped % 40_000)
            self._owners[public] = (sender, destination)
        else:
            public = mapped[0]
        self._ports[key] = (public, now)
        return public

    def owner_of(self, public: Address, source: Address, now: float) -> Port | None:
        """Return whom a datagram to a rewritten address reaches; None if nobody is known by it any more."""
        port, peer = self._owners.get(public, (None, None))
        if port is None or peer != source:
            return None
        mapped = self._ports.get((port.number, source))
        if mapped is None or mapped[0] != public or now - mapped[1] > self.MAPPING_S:
            return None
        self._ports[port.number, source] = (public, now)
        return port

    def forget(self) -> None:
        """Lose all mappings, as a router does that restarts."""
        self._ports.clear()
        self._owners.clear()
