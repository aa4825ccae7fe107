import asyncio
import socket
import time
from dataclasses import dataclass, field

import pytest

from gpumesh.daemon.shell import Shell
from gpumesh.daemon.sockets import GossipSocket
from gpumesh.daemon.streams import SEGMENT_BYTES, Streams
from gpumesh.model import Address
from gpumesh.swim.ports import CloseStream, OpenStream, SendStream, StreamAction
from tests.daemon.bound import both_families, free_socket


@dataclass
class Recorder:
    """An engine that writes down what it is told, in order."""

    heard: list[str] = field(default_factory=list)
    sources: list[Address] = field(default_factory=list)
    outbox: list[tuple[bytes, Address]] = field(default_factory=list)
    actions: list[StreamAction] = field(default_factory=list)
    deadline: float | None = None
    accepts: bool = True
    on_data: StreamAction | None = None

    def handle_datagram(self, data: bytes, source: Address, now: float) -> None:
        self.heard.append(f"datagram {data.decode()}")

    def handle_unreachable(self, address: Address, now: float) -> None:
        self.heard.append(f"unreachable {address}")

    def handle_timer(self, now: float) -> None:
        self.heard.append("timer")
        self.deadline = None

    def next_deadline(self) -> float | None:
        return self.deadline

    def datagrams_to_send(self) -> list[tuple[bytes, Address]]:
        sent, self.outbox = self.outbox, []
        return sent

    def next_stream_action(self) -> StreamAction | None:
        return self.actions.pop(0) if self.actions else None

    def handle_stream_accepted(self, source: Address, now: float) -> int | None:
        self.heard.append("accepted")
        self.sources.append(source)
        return 100 if self.accepts else None

    def handle_stream_opened(self, stream_id: int, now: float) -> None:
        self.heard.append(f"opened {stream_id}")

    def handle_stream_data(self, stream_id: int, data: bytes, now: float) -> None:
        self.heard.append(f"data {stream_id} {data.decode()}")
        if self.on_data is not None:
            self.actions.append(self.on_data)

    def handle_stream_closed(self, stream_id: int, now: float) -> None:
        self.heard.append(f"closed {stream_id}")


class Clock:
    """Boot time that only a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def until(condition: object, engine: Recorder) -> None:
    for _ in range(500):
        if str(condition) in engine.heard:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{condition!r} never came; heard {engine.heard}")


def shell_of(engine: Recorder, clock: Clock, socket_: GossipSocket) -> Shell:
    return Shell(engine, socket_, clock, on_progress=lambda: None, on_output=lambda: None)


async def test_akka_30335_what_waits_in_the_socket_is_read_before_any_timer_runs() -> None:
    engine, clock, receiver = Recorder(), Clock(), free_socket()
    shell = shell_of(engine, clock, receiver)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        for number in range(300):
            peer.sendto(b"%d" % number, tuple(receiver.address))
    engine.deadline = 99.0  # the host was stalled: a timer is overdue
    await shell.start()
    await until("timer", engine)
    assert engine.heard[:301] == [f"datagram {number}" for number in range(300)] + ["timer"]
    await shell.close()


async def num_timer_rounds(engine: Recorder, shell: Shell, for_s: float) -> int:
    """Count the rounds in which timers were looked at, by the progress that they report."""
    rounds = 0

    def count() -> None:
        nonlocal rounds
        rounds += 1

    shell._on_progress = count
    await asyncio.sleep(for_s)
    return rounds


async def test_a_deadline_that_has_moved_on_wakes_nobody() -> None:
    engine, clock = Recorder(), Clock()
    shell = shell_of(engine, clock, free_socket())
    await shell.start()
    engine.deadline = clock.now + 0.1
    shell.pump()
    engine.deadline = clock.now + 60.0
    shell.pump()
    assert await num_timer_rounds(engine, shell, 0.3) == 0
    await shell.close()


async def test_what_was_said_before_the_start_leaves_no_second_timer() -> None:
    engine, clock = Recorder(), Clock()
    shell = shell_of(engine, clock, free_socket())
    engine.deadline = clock.now + 0.2
    shell.pump()
    await shell.start()
    armed = [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
    assert len([handle for handle in armed if "_run_timers" in repr(handle)]) == 1
    await shell.close()


async def test_a_refused_datagram_is_early_evidence_about_its_address() -> None:
    engine, clock = Recorder(), Clock()
    dead = free_socket()
    gone = dead.address
    dead.close()
    living, sender = free_socket(), free_socket()
    shell = shell_of(engine, clock, sender)
    await shell.start()
    engine.outbox = [(b"hello", gone), (b"again", gone), (b"to the living", living.address)]
    shell.pump()
    await until(f"unreachable {gone}", engine)
    assert b"to the living" in [data for data, _ in living.receive_all()]
    living.close()
    await shell.close()


@pytest.mark.parametrize("slept_s", [0.6, 60.0])
async def test_a_timer_comes_as_much_sooner_as_a_suspend_took(slept_s: float) -> None:
    engine, clock = Recorder(), Clock()
    shell = shell_of(engine, clock, free_socket())
    await shell.start()
    engine.deadline = clock.now + 0.9
    shell.pump()
    clock.now += slept_s  # the event loop's own clock stood still
    shell.pump()
    assert shell._timer is not None
    assert shell._timer.when() - asyncio.get_running_loop().time() <= max(0.0, 0.9 - slept_s) + 0.001
    await shell.close()


async def test_a_flood_does_not_put_timers_off() -> None:
    engine, clock, receiver = Recorder(), Clock(), free_socket()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:

        def flood() -> None:
            if len(engine.heard) < 30:
                time.sleep(0.002)  # what waits is read more slowly than more of it comes
                peer.sendto(b"rubbish", tuple(receiver.address))

        shell = Shell(engine, receiver, clock, on_progress=lambda: None, on_output=flood)
        await shell.start()
        engine.deadline = clock.now
        await until("timer", engine)
        assert engine.heard.index("timer") < 5
    await shell.close()


async def test_an_ipv6_socket_reports_the_refusal_of_an_ipv4_peer() -> None:
    engine, clock = Recorder(), Clock()
    dead, both = free_socket(), both_families()
    gone = dead.address
    dead.close()
    shell = shell_of(engine, clock, both)
    await shell.start()
    engine.outbox = [(b"hello", gone)]
    shell.pump()
    await until(f"unreachable {gone}", engine)
    await shell.close()


async def test_a_stream_of_an_ipv4_peer_comes_from_its_ipv4_address() -> None:
    both = both_families()
    engine, clock = Recorder(), Clock()
    shell = shell_of(engine, clock, both)
    await shell.start()
    _, writer = await asyncio.open_connection("127.0.0.1", both.address.port)
    await until("accepted", engine)
    assert [source.host for source in engine.sources] == ["127.0.0.1"]
    writer.close()
    await shell.close()


async def test_a_stream_carries_bytes_both_ways_and_closes_after_the_last_word() -> None:
    server_engine, client_engine, clock = Recorder(), Recorder(), Clock()
    server_socket, client_socket = free_socket(), free_socket()
    server, client = (
        shell_of(server_engine, clock, server_socket),
        shell_of(client_engine, clock, client_socket),
    )
    await server.start()
    await client.start()
    server_engine.on_data = SendStream(100, b"answer")
    client_engine.actions = [OpenStream(7, server_socket.address)]
    client.pump()
    await until("opened 7", client_engine)
    client_engine.actions = [SendStream(7, b"question")]
    client.pump()
    await until("data 7 answer", client_engine)
    assert "data 100 question" in server_engine.heard
    client_engine.actions = [SendStream(7, b"bye"), CloseStream(7)]
    client.pump()
    await until("closed 100", server_engine)
    assert "data 100 bye" in server_engine.heard
    await client.close()
    await server.close()


async def test_streams_use_small_segments_both_ways_for_paths_that_swallow_larger_ones() -> None:
    server_engine, client_engine, clock = Recorder(), Recorder(), Clock()
    server_socket, client_socket = free_socket(), free_socket()
    server, client = (
        shell_of(server_engine, clock, server_socket),
        shell_of(client_engine, clock, client_socket),
    )
    await server.start()
    await client.start()
    client_engine.actions = [OpenStream(7, server_socket.address)]
    client.pump()
    await until("opened 7", client_engine)
    await until("accepted", server_engine)
    links = [*client.streams._links.values(), *server.streams._links.values()]
    assert len(links) == 2
    for link in links:
        assert link._transport is not None
        end = link._transport.get_extra_info("socket")
        # Loopback would carry 65,483; the kernel takes the room of TCP's own options off it.
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) <= SEGMENT_BYTES == 1280 - 60
    await client.close()
    await server.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::"])
def test_routers_on_the_way_may_cut_datagrams_in_pieces(host: str) -> None:
    gossip = both_families() if host == "::" else GossipSocket(Address(host, 0))
    ip_mtu_discover, never = 10, 0
    assert gossip._socket.getsockopt(socket.IPPROTO_IP, ip_mtu_discover) == never
    gossip.close()


async def test_a_stream_to_nobody_is_reported_closed() -> None:
    engine, clock, own = Recorder(), Clock(), free_socket()
    shell = shell_of(engine, clock, own)
    await shell.start()
    nobody = free_socket()
    address = nobody.address
    nobody.close()
    engine.actions = [OpenStream(3, address)]
    shell.pump()
    await until("closed 3", engine)
    await shell.close()


async def test_a_refused_stream_is_cut_off() -> None:
    engine, clock, own = Recorder(accepts=False), Clock(), free_socket()
    shell = shell_of(engine, clock, own)
    await shell.start()
    reader, writer = await asyncio.open_connection(*own.address)
    assert await asyncio.wait_for(_read_to_end(reader), 5) == b""
    writer.close()
    await shell.close()


async def test_closing_leaves_no_connection_behind() -> None:
    engine, clock = Recorder(), Clock()
    streams = Streams(engine, clock, lambda: None)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    streams.carry_out(OpenStream(1, Address(*listener.getsockname())))
    await until("opened 1", engine)
    await streams.close()
    assert engine.heard == ["opened 1", "closed 1"]
    listener.close()


async def test_a_stream_that_ended_by_itself_after_its_last_bytes_is_not_cut_off_once_more() -> None:
    engine, clock, own = Recorder(), Clock(), free_socket()
    shell = shell_of(engine, clock, own)
    await shell.start()
    reader, writer = await asyncio.open_connection(*own.address)
    await until("accepted", engine)
    link = shell.streams._links[100]
    engine.actions = [SendStream(100, bytes(16 << 20)), CloseStream(100)]
    shell.pump()  # more than the kernel takes at once: it ends when the last of it is out
    assert len(await _read_to_end(reader)) == 16 << 20
    await until("closed 100", engine)
    link.abort()  # as the event loop does once the time to get them out is over
    writer.close()
    await shell.close()


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
