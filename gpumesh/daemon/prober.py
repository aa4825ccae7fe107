"""The daemon's side of looking at the cards: one child at a time, a deadline, patience with a stuck driver.

A driver that does not answer is a finding, told at each look with the call it is stuck in and since when;
the cards that had answered are kept. A second child is never started behind a stuck one (gpud#117), not even
behind one of an earlier run; it is asked to end first and killed only long after that (dcgm-exporter#84).
What comes late is taken up again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gpumesh.config import GpuConfig
from gpumesh.daemon.clock import boot_time
from gpumesh.daemon.leftovers import StuckProber, hung_behind, surely_stuck
from gpumesh.daemon.library_traces import library_traces
from gpumesh.daemon.prober_process import ProberProcess
from gpumesh.daemon.prober_wire import Backend, device_state, driver_info
from gpumesh.health.devices import DeviceState, DriverInfo, Probe, XidEvent

START_S: Final = 10.0
"""How long a child may take to start; this is the interpreter's time, not the driver's."""
MIN_PATIENCE_S: Final = 60.0
PATIENCE_DEADLINES: Final = 12
KILL_AFTER_S: Final = 60.0
FIRST_BACKOFF_S: Final = 0.5
MAX_BACKOFF_S: Final = 60.0
_LIBRARY_NOT_FOUND: Final = 12
MAX_XID_EVENTS: Final = 1024
"""Xids kept until they are handed out; the driver tells more only in a flood, and the oldest go then."""
_GLANCE_S: Final = 0.05
_END_S: Final = 2.0


@dataclass(slots=True)
class _Round:
    """One look at all cards, as far as its answers have come."""

    number: int
    started_at: float
    driver: DriverInfo | None = None
    num_devices: int | None = None
    devices: dict[int, DeviceState] = field(default_factory=dict)
    pci_addresses: tuple[str, ...] | None = None
    error: str = ""
    error_code: int | None = None
    duration_s: float = 0.0
    is_begun: bool = False
    is_done: bool = False
    is_last: bool = False
    """The child ends after this answer."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it is done, or can no longer be."""

    def probe(self) -> Probe:
        """Return what is there."""
        return Probe(
            driver=self.driver,
            devices=tuple(state for _, state in sorted(self.devices.items())),
            num_devices=self.num_devices,
            error=self.error,
            error_code=self.error_code,
            duration_s=self.duration_s,
            pci_addresses=self.pci_addresses,
        )


class Prober:
    """Looks at this host's cards through a child process.

    ``host`` names simulated cards; ``root`` is where /proc and /sys are read. ``patience_s``: how long a
    driver may be stuck before its process is asked to end, by default twelve deadlines and at least a
    minute, since a driver that waits for its firmware answers after 45 s (open-gpu-kernel-modules#446);
    ``kill_after_s``: how long after that it is killed. Errors: ConfigError for an unknown simulated profile.
    """

    def __init__(
        self,
        gpu: GpuConfig,
        *,
        host: str,
        root: Path = Path("/"),
        patience_s: float | None = None,
        kill_after_s: float = KILL_AFTER_S,
    ) -> None:
        if gpu.simulated:
            from gpumesh.health.simulated import load_profile  # noqa: PLC0415 - hosts with real cards need it not

            for name in gpu.simulated:
                load_profile(name)
        faults = str(Path(gpu.simulated_faults).absolute()) if gpu.simulated_faults else ""
        self._backend = Backend(gpu.backend, host, gpu.simulated, faults, str(root))
        self._deadline_s = gpu.deadline_s
        self._interval_s = gpu.interval_s
        self._patience_s = patience_s or max(MIN_PATIENCE_S, PATIENCE_DEADLINES * gpu.deadline_s)
        self._kill_after_s = kill_after_s
        self._lock = asyncio.Lock()
        self._child: ProberProcess | None = None
        self._ready = asyncio.Event()
        self._has_answered = False
        """This child has answered a round in full."""
        self._is_restart_due = False
        self._round: _Round | None = None
        self._number = 0
        self._hung_since: float | None = None
        self._hung_call = ""
        self._terminated_at: float | None = None
        self._is_killed = False
        self._failure = Probe(driver=None, error="no card has been looked at yet")
        self._traces: tuple[int | None, ...] | None = None
        """What was found of the library when it was absent: once that changes, there is no waiting."""
        self._backoff_s = 0.0
        self._next_start_at = 0.0
        self._xid_events: deque[XidEvent] = deque(maxlen=MAX_XID_EVENTS)

    @property
    def child_pid(self) -> int | None:
        """The child's process id, to see that no second one runs; None while there is none."""
        return None if self._child is None else self._child.pid

    async def probe(self) -> Probe:
        """Look once; never raises.

        Answers within the deadline; where a child has to be started first, up to 10 s later.
        """
        async with self._lock:
            told = await self._probe()
            if self._is_restart_due:
                # A child that ended between two looks is replaced at once: of the cards that tells nothing.
                told = await self._probe()
            events = tuple(self._xid_events)
            self._xid_events.clear()
            return replace(told, xid_events=events)

    async def _probe(self) -> Probe:
        if self._is_stuck():
            told = await self._glance()
            if told is not None:
                return told
        if self._child is None:
            if self._is_to_wait():
                return self._hung_too(self._failure)
            orphans = await self._orphans()
            if orphans:
                return hung_behind(orphans, boot_time())
            try:
                self._start()
            except OSError as error:
                reason = f"the prober cannot be started: {error.strerror}"
                return self._fail(Probe(driver=None, error=reason), MAX_BACKOFF_S)
        return await self._look()

    async def let_go(self) -> bool:
        """End the child until the next look starts another; False if it does not end, and is looked after.

        A child that is stuck is not asked: it is told of by :meth:`probe`, and none is started behind it.
        """
        async with self._lock:
            child = self._child
            if child is None:
                return True
            if self._is_stuck():
                return False
            child.ask_to_end()
            # Without persistence mode a driver takes seconds to close its last handle (netdata#14522).
            if not await child.wait_reaped(max(_END_S, self._deadline_s)):
                return False
            child.release()
            self._child = self._round = None
            return True

    async def close(self) -> None:
        """Let go of the driver: ask, wait, SIGTERM, wait; a child stuck in the kernel is left, never killed.

        Waits for a probe that is under way: cancel that one first.
        """
        async with self._lock:
            child, self._child, self._round = self._child, None, None
            if child is None:
                return
            child.ask_to_end()
            if not await child.wait_reaped(_END_S):
                child.terminate()
                await child.wait_reaped(_END_S)
            child.release()

    async def _orphans(self) -> tuple[StuckProber, ...]:
        """Return the children of an earlier run of the daemon that are still stuck in the driver."""
        if self._backend.kind != "nvml":
            return ()
        return tuple(item for item in await surely_stuck(Path(self._backend.root)) if item.is_orphan)

    def _start(self) -> None:
        self._ready, self._has_answered, self._is_restart_due = asyncio.Event(), False, False
        self._terminated_at, self._is_killed, self._round, self._traces = None, False, None, None
        self._child = ProberProcess(self._backend, on_frame=self._handle_frame, on_end=self._handle_end)

    async def _look(self) -> Probe:
        """Ask the child for a round and wait for it, but no longer than the deadline."""
        child = self._child
        assert child is not None
        if not await _is_set_within(self._ready, START_S):
            return Probe(driver=None, error=f"the prober has not started within {START_S:g} s")
        self._number += 1
        current = self._round = _Round(self._number, time.monotonic())
        child.send("probe", current.number)
        if not child.is_ended:
            await _is_set_within(current.over, self._deadline_s)
        if current.is_done and not current.is_last:
            self._backoff_s = 0.0
            return current.probe()
        if current.is_last or child.is_ended:
            return await self._bury()
        self._hung_since = self._hung_since or current.started_at
        return self._hung()

    async def _glance(self) -> Probe | None:
        """Look whether a stuck child has come loose: None if so; else what to tell, and escalate in time."""
        child, current = self._child, self._round
        assert child is not None
        if current is not None and not child.is_ended:
            await _is_set_within(current.over, _GLANCE_S)
            if current.is_done and not current.is_last:
                return None
        if child.is_ended or child.is_reaped():
            return await self._bury(_GLANCE_S)
        self._escalate(child)
        return self._hung()

    def _escalate(self, child: ProberProcess) -> None:
        now = time.monotonic()
        if self._terminated_at is None:
            started_at = now if self._round is None else self._round.started_at
            if now - started_at > self._patience_s:
                child.terminate()
                self._terminated_at = now
        elif now - self._terminated_at > self._kill_after_s and not self._is_killed:
            child.kill()
            self._is_killed = True

    def _is_stuck(self) -> bool:
        if self._child is None:
            return False
        return self._child.is_ended or (self._round is not None and not self._round.is_done)

    async def _bury(self, patience_s: float = _END_S) -> Probe:
        """Reap a child whose answers have ended, and say why; one that does not go counts as stuck."""
        child, current = self._child, self._round
        assert child is not None
        if not await child.wait_reaped(patience_s):
            self._hung_since = self._hung_since or time.monotonic()
            return self._hung()
        call, ending = child.call, child.how_it_ended()
        child.release()
        self._child = self._round = None
        if current is not None and current.is_last:
            is_library_absent = current.error_code == _LIBRARY_NOT_FOUND
            self._traces = self._traces_now() if is_library_absent else None
            return self._fail(current.probe(), MAX_BACKOFF_S if is_library_absent else self._interval_s)
        where = f" in {call}" if call else ""
        is_idle = current is None or current.is_done or not current.is_begun
        told = Probe(driver=None) if current is None or is_idle else current.probe()
        # The count is left out: cards that were not got to are not gone.
        told = replace(told, error=f"the prober {ending}{where}", call=call, num_devices=None)
        told = self._fail(told, MAX_BACKOFF_S)
        if is_idle and self._has_answered and self._backoff_s == FIRST_BACKOFF_S:
            self._is_restart_due, self._next_start_at = True, 0.0
        return self._hung_too(told)

    def _fail(self, probe: Probe, longest_s: float) -> Probe:
        """Remember what is told until the next child is started, later each time up to ``longest_s``."""
        self._backoff_s = min(max(FIRST_BACKOFF_S, 2 * self._backoff_s), longest_s)
        self._next_start_at = time.monotonic() + self._backoff_s
        self._failure = replace(probe, devices=())
        return probe

    def _is_to_wait(self) -> bool:
        if time.monotonic() >= self._next_start_at:
            return False
        return self._traces is None or self._traces == self._traces_now()

    def _traces_now(self) -> tuple[int | None, ...]:
        return library_traces(Path(self._backend.root), os.environ.get("LD_LIBRARY_PATH", ""))

    def _hung_too(self, probe: Probe) -> Probe:
        """Return ``probe``; a driver that has not answered since is still said to hang."""
        if self._hung_since is None:
            return probe
        hung_for_s = time.monotonic() - self._hung_since
        return replace(probe, is_hung=True, call=self._hung_call, hung_for_s=hung_for_s)

    def _hung(self) -> Probe:
        """Say that the driver does not answer, in which call and since when, with the cards that did."""
        child, current = self._child, self._round
        assert child is not None
        now = time.monotonic()
        self._hung_call = "the end of its process" if child.is_ended else child.call
        probe = Probe(driver=None) if current is None else current.probe()
        if current is not None and now - current.started_at > self._patience_s:
            # What was read so long ago tells nothing of now.
            probe = replace(probe, devices=tuple(_without_reading(state) for state in probe.devices))
        probe = self._hung_too(probe)
        where = f", in {self._hung_call}" if self._hung_call else ""
        error = f"the driver has not answered for {probe.hung_for_s:.0f} s{where}"
        return replace(probe, error=error, duration_s=probe.hung_for_s)

    def _handle_frame(self, frame: list[Any]) -> None:
        kind, *contents = frame
        if kind == "ready":
            self._ready.set()
            return
        current = self._round
        if current is None or contents[0] != current.number:
            return
        current.is_begun = True
        if kind == "device":
            self._take_device(current, device_state(contents[1]))
        else:
            _apply(current, kind, contents[1:])
        if current.is_done:
            current.duration_s = time.monotonic() - current.started_at
            self._hung_since = None
            self._has_answered = not current.is_last
            current.over.set()

    def _take_device(self, current: _Round, state: DeviceState) -> None:
        # Events are kept apart from the round: a round can be told twice or come too late, they must not.
        address = state.info.pci_bus_id if state.info else ""
        self._xid_events.extend(XidEvent(address, xid) for xid in state.xids)
        current.devices[state.index] = replace(state, xids=())

    def _handle_end(self) -> None:
        self._ready.set()
        if self._round is not None:
            self._round.over.set()


def _apply(current: _Round, kind: str, contents: list[Any]) -> None:
    """Take one answer up into its round."""
    if kind == "pci":
        current.pci_addresses = None if contents[0] is None else tuple(contents[0])
    elif kind == "driver":
        current.driver = driver_info(contents[0])
    elif kind == "count":
        current.num_devices = int(contents[0])
    elif kind == "failed":
        current.error, current.error_code = str(contents[0]), contents[1]
        current.driver = None
        current.is_done, current.is_last = True, bool(contents[2])
    elif kind == "done":
        current.is_done = True


def _without_reading(state: DeviceState) -> DeviceState:
    return state if state.reading is None else replace(state, reading=None, error="no answer of late")


async def _is_set_within(event: asyncio.Event, timeout_s: float) -> bool:
    if event.is_set():
        return True
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except asyncio.TimeoutError:
        return False
    return True
