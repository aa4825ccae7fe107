"""A cable that doubles and reorders what it carries, for kernels without netem."""

from __future__ import annotations

import array
import fcntl
import heapq
import random
import select
import socket
import struct
import threading
import time
from types import TracebackType

from tests.machines.network import Port, ip
from tests.networks.daemons import entered

_ALL_PROTOCOLS = 3
_SIOCETHTOOL = 0x8946
_ETHTOOL_STXCSUM = 0x17
_FRAME_BYTES = 1 << 16
_IDLE_S = 0.05


class JumblingCable:
    """Carries a host's frames to and from the switch: a context manager.

    A share `duplicate` of them comes twice. Each copy takes up to `delay_s`, so that frames overtake one
    another.
    """

    def __init__(self, port: Port, *, duplicate: float, delay_s: float, seed: int) -> None:
        self._port = port
        self._duplicate = duplicate
        self._delay_s = delay_s
        self._random = random.Random(seed)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cable")
        self.num_doubled = self.num_overtaken = 0

    def __enter__(self) -> JumblingCable:  # noqa: PYI034 - typing.Self came with 3.11
        port = self._port
        ends = ("cable0", "cable1")
        ip("-n", port.switch, "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        ip("-n", port.switch, "link", "set", port.switch_interface, "nomaster")
        ip("-n", port.switch, "link", "set", ends[1], "master", "br0", "up")
        ip("-n", port.switch, "link", "set", ends[0], "up")
        with entered(port.netns):
            _finish_checksums("eth0")
        with entered(port.switch):
            # What arrives from other hosts has passed the switch with its checksums left to the hardware.
            for _, name in socket.if_nameindex():
                if name.startswith(("port", "cable")):
                    _finish_checksums(name)
            self._sockets = (_packets_of(port.switch_interface), _packets_of(ends[0]))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        for end in self._sockets:
            end.close()
        ip("-n", self._port.switch, "link", "set", self._port.switch_interface, "master", "br0")
        ip("-n", self._port.switch, "link", "delete", "cable0")

    def _run(self) -> None:
        first, second = self._sockets
        waiting: list[tuple[float, int, socket.socket, bytes]] = []
        number = last_sent = 0
        while not self._is_over.is_set():
            wait_s = min(_IDLE_S, max(0.0, waiting[0][0] - time.monotonic())) if waiting else _IDLE_S
            for ready in select.select(self._sockets, (), (), wait_s)[0]:
                frame, (*_, kind, _, _) = ready.recvfrom(_FRAME_BYTES)
                if kind == socket.PACKET_OUTGOING:
                    continue  # what was sent here
                is_doubled = self._random.random() < self._duplicate
                self.num_doubled += is_doubled
                for _ in range(1 + is_doubled):
                    number += 1
                    due_at = time.monotonic() + self._random.uniform(0.0, self._delay_s)
                    heapq.heappush(waiting, (due_at, number, second if ready is first else first, frame))
            while waiting and waiting[0][0] <= time.monotonic():
                _, sent, way_out, frame = heapq.heappop(waiting)
                self.num_overtaken += sent < last_sent
                last_sent = max(last_sent, sent)
                way_out.send(frame)


def _packets_of(interface: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    end.bind((interface, 0))
    return end


def _finish_checksums(interface: str) -> None:
    """Have the kernel finish checksums, and cut segments to size, before a frame is on the interface."""
    command = array.array("I", [_ETHTOOL_STXCSUM, 0])
    request = struct.pack("16sP16x", interface.encode(), command.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCETHTOOL, request)
