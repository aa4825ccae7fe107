"""A host that knows its fleet, with what somebody at the network has recorded of the talk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpumesh.mesh.engine import Mesh
from gpumesh.model import Reachability
from gpumesh.records.codec import encode_update, make_entry
from gpumesh.records.values import encode_value
from gpumesh.sim.gpus import report_of
from gpumesh.swim.frames import Frame, Hello, Purpose, Row, Rows, encode
from gpumesh.swim.ports import SendStream
from gpumesh.swim.seal import FleetSealer
from gpumesh.swim.statement import Statement
from gpumesh.swim.stream import CHALLENGE_BYTES, Channel
from gpumesh.swim.wire import Ack, Gossip, Ping, Primary, Sender, decode, encode_body, encode_head
from tests.fuzz import words
from tests.fuzz.driver import FLEET, whole
from tests.swim.link import KEY

FRIEND: Final = words.IDS[1]
STANDINGS: Final[Mapping[str, Reachability]] = {
    words.IDS[1]: Reachability.ALIVE,
    words.IDS[2]: Reachability.SUSPECT,
    words.IDS[3]: Reachability.FAILED,
    words.IDS[4]: Reachability.LEFT,
    words.IDS[5]: Reachability.ALIVE,
}
"""How the host holds each of the others."""
LIVING: Final = tuple(host_id for host_id, held in STANDINGS.items() if held is Reachability.ALIVE)
LOOK_S: Final = 0.1
PROBED_S: Final = 2.5
"""In which a host asks both of its living members, and a suspicion does not end yet."""


@dataclass(slots=True)
class Scene:
    """The host, the time, and the recordings."""

    engine: Mesh = field(default_factory=whole)
    now: float = 0.0
    taken: list[bytes] = field(default_factory=list)
    """Datagrams that the host took in, as they were on the wire."""
    sent: list[bytes] = field(default_factory=list)
    """Datagrams that the host sent."""
    stream: bytes = b""
    """All that the opener of a stream said."""

    def __post_init__(self) -> None:
        friends = {host_id: sealer(number) for number, host_id in enumerate(LIVING, 2)}
        self.engine.set_health(report_of("host", 2), self.now)
        self._sync(friends[FRIEND])
        self._hand(friends[FRIEND], FRIEND, Gossip(), [_record(host_id) for host_id in STANDINGS])
        while self.now < PROBED_S:
            self.now += LOOK_S
            self.engine.handle_timer(self.now)
            self._answer_pings(friends)
        self._drain()

    def _sync(self, sealer: FleetSealer) -> None:
        """Have the friend tell the member table by stream."""
        source = words.ADDRESSES[1]
        stream_id = self.engine.handle_stream_accepted(source, self.now)
        assert stream_id is not None
        channel = Channel(sealer, bytes([7] * CHALLENGE_BYTES), 1 << 20, is_opener=True)
        preamble = self.engine.next_stream_action()
        assert isinstance(preamble, SendStream)
        channel.feed(preamble.data)
        rows = tuple(_row(number) for number in range(1, len(words.IDS)))
        said: tuple[Frame, ...] = (Hello(Sender(FRIEND, 1, 0, 1), source, Purpose.SYNC, False), Rows(rows))
        self.stream = channel.preamble() + b"".join(channel.seal(encode(frame)) for frame in said)
        self.engine.handle_stream_data(stream_id, self.stream, self.now)
        self.engine.handle_stream_closed(stream_id, self.now)
        self._drain()

    def _answer_pings(self, friends: Mapping[str, FleetSealer]) -> None:
        for data in self._drain():
            asked = decode(sealer(99).open(data).body).primary
            if isinstance(asked, Ping) and asked.target in friends:
                self._hand(friends[asked.target], asked.target, Ack(asked.seq, is_stranger=False), [])

    def _hand(self, sealer: FleetSealer, host_id: str, primary: Primary, updates: list[bytes]) -> None:
        head = encode_head(Sender(host_id, 1, 0, 1), b"", primary)
        self.taken.append(sealer.seal(encode_body(head, [], updates)))
        source = words.ADDRESSES[words.IDS.index(host_id)]
        self.engine.handle_datagram(self.taken[-1], source, self.now)

    def _drain(self) -> list[bytes]:
        sent = [data for data, _ in self.engine.datagrams_to_send()]
        self.sent += sent
        while self.engine.next_stream_action() is not None:
            pass
        while self.engine.next_event() is not None:
            pass
        return sent


def sealer(session: int) -> FleetSealer:
    return FleetSealer(KEY, FLEET, bytes([session] * 16))


def _row(number: int) -> Row:
    host_id = words.IDS[number]
    accuser = FRIEND if STANDINGS[host_id] in {Reachability.SUSPECT, Reachability.FAILED} else ""
    return Row(Statement(STANDINGS[host_id], host_id, 1, 0, words.ADDRESSES[number], accuser), 1)


def _record(host_id: str) -> bytes:
    facts = encode_value({"name": "peer", "boot_id": "boot", "version": "0"})
    return encode_update(make_entry(host_id, "host", epoch=1, version=1, encoded=facts))
