"""Streams over the lossy network: reliable ordered pipes that are slow under loss and fail when cut.

What TCP does is kept where an engine can notice it: a lost segment comes late and all behind it wait; a
kernel accepts for a daemon that is stopped; a daemon that died resets its streams; a host without power is
silent.
"""

from __future__ import annotations

from gpumesh.model import Address
from gpumesh.sim.network import Network
from gpumesh.sim.port import End, Port, Signal

CONNECT_TIMEOUT_S = 10.0
GIVE_UP_S = 15.0
"""How long a segment is tried again before its stream fails; Linux takes minutes."""
RETRANSMIT_S = 0.2
"""Wait before the first retransmission; doubles with each."""
MAX_SEGMENT_BYTES = 16_384
MAX_ENDS = 512
"""Open streams a host may hold before its shell refuses more."""
EPHEMERAL_PORT = 40_000


class Streams:
    """Carries streams between ports; counts into the network's tally."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._agenda = network.agenda
        self._conditions = network.conditions
        self._ends: dict[int, dict[End, None]] = {}
        self._num_opened = 0

    def num_open(self, number: int) -> int:
        """Return how many streams a host holds now."""
        return len(self._ends.get(number, ()))

    def connect(self, port: Port, stream_id: int, address: Address) -> End:
        """Begin to connect; the port hears ``deliver_opened`` or ``deliver_closed``."""
        end = End(port, stream_id)
        self._network.counts["streams"] += 1
        self._num_opened += 1
        if self.num_open(port.number) >= MAX_ENDS:
            self._network.counts["streams_refused"] += 1
            self._agenda.after(0.0, self._end_input, end)
            return end
        self._ends.setdefault(port.number, {})[end] = None
        self._try_connect(end, address, self._agenda.now + CONNECT_TIMEOUT_S, 1.0)
        return end

    def _try_connect(self, end: End, address: Address, deadline: float, wait_s: float) -> None:
        if not end.is_open:
            return
        if self._agenda.now >= deadline:
            self._end_input(end)
            return
        target = self._network.port_at(address)
        number = end.port.number
        if target is not None and not (
            self._network.nat.shuts_out(number, target.number)
            or self._conditions.is_cut(number, target.number)
            or self._conditions.loses_packet(number, target.number)
            or self._conditions.loses_packet(target.number, number)
        ):
            self._agenda.after(self._conditions.draw_delay_s(), self._arrive, end, address)
        # A silent peer and a lost packet look the same: both are tried again until the deadline.
        next_at = min(self._agenda.now + wait_s, deadline)
        self._agenda.at(next_at, self._retry_connect, end, address, deadline, wait_s * 2)

    def _retry_connect(self, end: End, address: Address, deadline: float, wait_s: float) -> None:
        if end.peer is None:
            self._try_connect(end, address, deadline, wait_s)

    def _arrive(self, end: End, address: Address) -> None:
        target = self._network.port_at(address)
        if not end.is_open or end.peer is not None or target is None or not target.is_up:
            return
        if not target.is_listening or self.num_open(target.number) >= MAX_ENDS:
            self._network.counts["streams_refused"] += 1
            self._agenda.after(self._conditions.draw_delay_s(), self._end_input, end)
            return
        other = End(target, None)
        end.peer, other.peer = other, end
        self._ends.setdefault(target.number, {})[other] = None
        source = Address(end.port.address.host, EPHEMERAL_PORT + self._num_opened % 20_000)
        # In the same pipe as all that follows: no byte may overtake the word that the stream stands.
        self._push(other, Signal.ESTABLISHED)
        target.deliver_accept(other, source)

    def send(self, end: End, data: bytes) -> None:
        """Write to a stream; bytes for a stream that has ended are dropped, as a shell would."""
        if not end.is_open or end.peer is None:
            return
        self._network.counts["stream_bytes"] += len(data)
        self._network.sent_bytes[end.port.number] += len(data)
        for start in range(0, len(data), MAX_SEGMENT_BYTES):
            self._push(end, data[start : start + MAX_SEGMENT_BYTES])

    def close(self, end: End) -> None:
        """Take no more input; the peer hears of it once all that was written has arrived."""
        if not end.is_open:
            return
        end.is_open = False
        if end.peer is None:
            self._forget(end)
        else:
            self._push(end, Signal.ENDED)

    def abandon(self, number: int, *, resets: bool) -> None:
        """Drop all streams of a host whose daemon is gone; with ``resets`` its kernel tells the peers."""
        for end in self._ends.pop(number, {}):
            end.is_open = False
            end.outgoing.clear()
            if resets and end.peer is not None:
                self._agenda.after(self._conditions.draw_delay_s(), self._end_input, end.peer)

    def _push(self, end: End, data: bytes | Signal) -> None:
        peer = end.peer
        assert peer is not None
        delay_s = self._conditions.draw_delay_s()
        wait_s = RETRANSMIT_S
        while self._conditions.loses_packet(end.port.number, peer.port.number) and delay_s < GIVE_UP_S:
            delay_s += wait_s
            wait_s *= 2
        behind = end.outgoing[-1][0] if end.outgoing else 0.0
        ready_at = max(behind, self._agenda.now + delay_s)
        end.outgoing.append((ready_at, data))
        if len(end.outgoing) == 1:
            self._agenda.at(ready_at, self._flow, end, self._agenda.now + GIVE_UP_S)

    def _flow(self, end: End, give_up_at: float) -> None:
        peer = end.peer
        assert peer is not None
        if not end.outgoing:
            return
        now = self._agenda.now
        if self._conditions.is_cut(end.port.number, peer.port.number) or not peer.port.is_up:
            if now >= give_up_at:
                end.outgoing.clear()
                self._end_input(end)
            else:
                self._agenda.after(1.0, self._flow, end, give_up_at)
            return
        while end.outgoing and end.outgoing[0][0] <= now:
            _, data = end.outgoing.popleft()
            self._hand_over(end, peer, data)
        if end.outgoing:
            self._agenda.at(end.outgoing[0][0], self._flow, end, now + GIVE_UP_S)

    def _hand_over(self, end: End, peer: End, data: bytes | Signal) -> None:
        if data is Signal.ENDED:
            self._end_input(peer)
            self._forget(end)
        elif not peer.is_open:
            return
        elif isinstance(data, bytes):
            peer.port.deliver_data(peer, data)
        else:
            peer.port.deliver_opened(peer)

    def _end_input(self, end: End) -> None:
        self._forget(end)
        if end.is_open:
            end.is_open = False
            end.port.deliver_closed(end)

    def _forget(self, end: End) -> None:
        held = self._ends.get(end.port.number)
        if held is not None:
            held.pop(end, None)
