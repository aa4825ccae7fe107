"""What the network does to each packet now: latency, loss, duplicates, reordering, partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class LinkProfile:
    """How a link treats packets; chances from 0 to 1."""

    latency_s: float = 0.0005
    """One way, the least there is."""
    jitter_s: float = 0.0005
    """Mean of the exponential delay on top."""
    loss: float = 0.0
    duplicate: float = 0.0
    """Chance that a datagram arrives twice."""
    reorder: float = 0.0
    """Chance that a datagram is held back by up to ``reorder_s``, so that later ones overtake it."""
    reorder_s: float = 0.2
    mtu_bytes: int = 65_507
    """Larger datagrams vanish, as they do where path MTU discovery is filtered."""


class Conditions:
    """The state of the network between hosts, which are known by their number.

    A scenario changes it while the world runs; every draw comes from the ``Random`` given.
    """

    def __init__(self, link: LinkProfile, random: Random) -> None:
        self.link = link
        self.loss_in: dict[int, float] = {}
        """Extra loss of what a host receives."""
        self.loss_out: dict[int, float] = {}
        """Extra loss of what a host sends."""
        self.link_loss: dict[tuple[int, int], float] = {}
        """Extra loss from one host to another, that way only."""
        self.datagrams_blocked: set[int] = set()
        """Hosts behind a filter that passes streams only."""
        self._random = random
        self._group_of: dict[int, int] = {}

    @property
    def groups(self) -> tuple[frozenset[int], ...]:
        """The sides of the present partition; empty when there is none."""
        sides: dict[int, set[int]] = {}
        for host, group in self._group_of.items():
            sides.setdefault(group, set()).add(host)
        return tuple(frozenset(side) for _, side in sorted(sides.items()))

    def partition(self, groups: Sequence[Iterable[int]]) -> None:
        """Cut all links between different groups; a host in no group reaches everybody."""
        self._group_of = {host: number for number, group in enumerate(groups) for host in group}

    def heal(self) -> None:
        """End the partition."""
        self._group_of = {}

    def is_cut(self, source: int, target: int) -> bool:
        """Whether nothing at all gets from ``source`` to ``target``."""
        if not self._group_of:
            return False
        first = self._group_of.get(source)
        second = self._group_of.get(target)
        return first is not None and second is not None and first != second

    def loses_packet(self, source: int, target: int) -> bool:
        """Draw whether one packet on this way is lost."""
        draw = self._random.random
        if self.link.loss and draw() < self.link.loss:
            return True
        if self.loss_out and draw() < self.loss_out.get(source, 0.0):
            return True
        if self.loss_in and draw() < self.loss_in.get(target, 0.0):
            return True
        return bool(self.link_loss) and draw() < self.link_loss.get((source, target), 0.0)

    def loses_datagram(self, source: int, target: int, size_bytes: int) -> bool:
        """Draw whether one datagram is lost, be it to a cut, a filter, its size or chance."""
        return (
            self.is_cut(source, target)
            or size_bytes > self.link.mtu_bytes
            or (
                bool(self.datagrams_blocked)
                and (source in self.datagrams_blocked or target in self.datagrams_blocked)
            )
            or self.loses_packet(source, target)
        )

    def draw_delay_s(self) -> float:
        """Draw how long one packet is under way."""
        link = self.link
        delay_s = link.latency_s
        if link.jitter_s:
            delay_s += self._random.expovariate(1.0 / link.jitter_s)
        return delay_s

    def draw_datagram_delays_s(self) -> tuple[float, ...]:
        """Draw when the copies of one datagram arrive: mostly one, sometimes late, sometimes two."""
        link = self.link
        draw = self._random.random
        delay_s = self.draw_delay_s()
        if link.reorder and draw() < link.reorder:
            delay_s += draw() * link.reorder_s
        if link.duplicate and draw() < link.duplicate:
            return (delay_s, delay_s + self.draw_delay_s())
        return (delay_s,)
