"""The prober's process: it alone calls the driver, and may be stuck in it for as long as the driver likes.

Started by :mod:`gpumesh.daemon.prober` with three descriptors: requests in, answers out, and a shared record
in which it writes each driver call before making it. No threads, no asyncio: nothing here but the driver can
block. It ends when its requests end, and never outlives the daemon.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

from gpumesh.daemon.leftovers import prober_name
from gpumesh.daemon.pci import PciBus
from gpumesh.daemon.prober_wire import CALL_BYTES, Backend, FrameReader, backend, encode
from gpumesh.daemon.rest import Rest
from gpumesh.errors import DriverError, GpumeshError
from gpumesh.health.devices import DeviceInfo, DeviceState, Driver, DriverInfo
from gpumesh.health.nvml import NvmlDriver
from gpumesh.health.simulated import SimulatedDriver

MAX_DEVICES: Final = 64
REOPEN_AFTER_S: Final = 60.0
"""A lost card is seen again only by a new session of the driver: one is opened at most this often."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_DRIVER_NOT_LOADED: Final = 9
_CHUNK_BYTES: Final = 1 << 16


class CallRecord:
    """The shared record of the call that this process is in, read by the daemon when no answer comes."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, CALL_BYTES)

    def announce(self, call: str) -> None:
        """Write the call about to be made; a copy of 128 bytes, so that it costs next to nothing."""
        self._map[:CALL_BYTES] = call.encode(errors="replace")[:CALL_BYTES].ljust(CALL_BYTES, b"\0")


class Looker:
    """Answers one request at a time from a driver, card by card."""

    def __init__(self, wanted: Backend, answers: int, record: CallRecord) -> None:
        self._answers = answers
        self._record = record
        root = Path(wanted.root)
        self._driver: Driver
        self._simulated: SimulatedDriver | None = None
        self._bus = PciBus(root)
        if wanted.kind == "simulated":
            self._driver = self._simulated = SimulatedDriver(
                wanted.profiles,
                host=wanted.host,
                random=random.Random(wanted.host),  # noqa: S311 - made-up readings, repeatable by host
                faults=Path(wanted.faults) if wanted.faults else None,
            )
        else:
            self._driver = NvmlDriver(root=root, announce=record.announce)
        self._rest = Rest(root)
        self._info: DriverInfo | None = None
        self._told: DriverInfo | None = None
        """What the driver said of itself last; kept while it is let go of."""
        self._states: list[DeviceState] = []
        self._opened_at = 0.0
        self._has_gap = False

    def look(self, number: int) -> bool:
        """Answer round ``number``; False when this process must end because only a fresh one can do better.

        The C library caches which directories and libraries it has seen, and NVIDIA's stays loaded in the
        version that it had: after any refusal but "not loaded" only a new process sees what was installed.
        """
        addresses = self._simulated.pci_addresses() if self._simulated else self._bus.gpu_addresses()
        self.send("pci", number, addresses)
        if self._told is not None and self._may_all_rest(addresses):
            # Nothing is open then: a card that is held open does not fall asleep.
            self.close()
            self._tell(number, self._told, [_resting(state.index, state.info) for state in self._states])
            return True
        try:
            self._open()
            self.send("driver", number, self._info)
            num_devices = self._count()
            self.send("count", number, num_devices)
            self._look_at_all(number, num_devices, addresses)
        except DriverError as error:
            self.close()
            must_end = error.code != _DRIVER_NOT_LOADED
            self.send("failed", number, str(error), error.code, must_end)
            return not must_end
        self._record.announce("")
        self.send("done", number)
        return True

    def _look_at_all(self, number: int, num_devices: int, addresses: tuple[str, ...] | None) -> None:
        known = self._states if len(self._states) == num_devices else []
        # The driver numbers its cards by their addresses, so that one that sleeps since before is found too.
        by_rank = addresses if addresses is not None and len(addresses) == num_devices else ()
        states = []
        for index in range(min(num_devices, MAX_DEVICES)):
            info = known[index].info if known else None
            address = info.pci_bus_id if info else next(iter(by_rank[index : index + 1]), "")
            self._record.announce(f"gpu {index}")
            if self._is_to_rest(address):
                state = _resting(index, info)
            else:
                state = self._driver.probe_device(index)
                self._rest.note(state)
            states.append(state)
            self.send("device", number, state)
        self._states = states
        has_lost = any(state.is_lost for state in states)
        self._has_gap = has_lost or (addresses is not None and len(addresses) > num_devices)

    def _tell(self, number: int, driver: DriverInfo, states: list[DeviceState]) -> None:
        self.send("driver", number, driver)
        self.send("count", number, len(states))
        for state in states:
            self.send("device", number, state)
        self.send("done", number)

    def _may_all_rest(self, addresses: tuple[str, ...] | None) -> bool:
        if not self._states or (addresses is not None and len(addresses) != len(self._states)):
            return False
        return all(
            state.info is not None and self._is_to_rest(state.info.pci_bus_id) for state in self._states
        )

    def _is_to_rest(self, address: str) -> bool:
        # A made-up card is not the one that this host has at the same address.
        return self._simulated is None and bool(address) and self._rest.is_due(address)

    def send(self, kind: str, *contents: Any) -> None:
        """Write one frame; blocks only if the daemon does not read."""
        data = memoryview(encode(kind, *contents))
        while data:
            data = data[os.write(self._answers, data) :]

    def close(self) -> None:
        """Let go of the driver."""
        self._driver.close()
        self._info = None

    def _open(self) -> None:
        if self._has_gap and time.monotonic() - self._opened_at > REOPEN_AFTER_S:
            self.close()
        if self._info is None:
            self._record.announce("open the driver")
            self._info = self._told = self._driver.open()
            self._opened_at = time.monotonic()

    def _count(self) -> int:
        self._record.announce("count the cards")
        return self._driver.count()


def _resting(index: int, info: DeviceInfo | None) -> DeviceState:
    return DeviceState(index=index, info=info, reading=None, is_resting=True)


def main(arguments: list[str]) -> int:
    """Serve requests until they end.

    ``arguments``: descriptors of requests, answers and call record; the daemon's process id.
    """
    requests, answers, record, parent = (int(item) for item in arguments)
    _take_name(parent)
    _end_with_parent(parent)
    for descriptor in (requests, answers, record):
        # NVIDIA's library starts programs of its own; one that hangs must not hold the daemon's pipes.
        os.set_inheritable(descriptor, False)  # noqa: FBT003
    # The daemon decides when this process ends; a Ctrl-C on its terminal reaches both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    reader, looker = FrameReader(), None
    calls = CallRecord(record)
    try:
        while data := os.read(requests, _CHUNK_BYTES):
            for frame in reader.feed(data):
                if frame[0] == "configure":
                    looker = Looker(backend(frame[1]), answers, calls)
                    looker.send("ready")
                elif looker is not None and not looker.look(int(frame[1])):
                    return 0
    except BrokenPipeError:
        pass
    except GpumeshError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if looker is not None:
        looker.close()
    return 0


def _take_name(parent: int) -> None:
    """Take the name by which the next run knows this process, should it be stuck then."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, prober_name(parent).encode(), 0, 0, 0)


def _end_with_parent(parent: int) -> None:
    """Have the kernel send SIGTERM when the daemon dies, however it dies; SIGKILL could wedge a GPU."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit("the daemon ended before its prober began")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
