"""One simulated host: a kernel with a network port, its own clock, and the engine that its daemon runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from gpumesh.model import Address, HealthReport, Identity
from gpumesh.sim.agenda import HostClock
from gpumesh.sim.network import Network
from gpumesh.sim.node import Node, NodeBuilder
from gpumesh.sim.port import End
from gpumesh.sim.status import Status
from gpumesh.sim.streams import Streams
from gpumesh.sim.watch import Listener
from gpumesh.swim.ports import CloseStream, OpenStream, StreamAction

RECEIVE_BUFFER_BYTES = 2 << 20
"""What the daemon asks the kernel for (:mod:`gpumesh.daemon`)."""
DATAGRAM_OVERHEAD_BYTES = 768
"""What the kernel charges a queued datagram on top of its length."""
LINGER_S = 1.0
"""How long a daemon answers after its goodbye before it exits."""
TICK_S = 1.0
CACHE_EVERY_TICKS = 10
MAX_WAKES_AN_INSTANT = 100


class SimHost:
    """A machine, its kernel and its daemon; the shell's loop is the real one's: feed, drain, send, re-arm."""

    def __init__(
        self,
        *,
        number: int,
        identity: Identity,
        address: Address,
        clock: HostClock,
        network: Network,
        streams: Streams,
        build: NodeBuilder,
        listener: Listener,
        seed: int,
    ) -> None:
        self.number = number
        self.identity = identity
        self.address = address
        self.clock = clock
        self.unix_offset = 1.7e9
        self.resolve_seeds: Callable[[], Sequence[Address]] = tuple
        """Names resolve anew each time, as the daemon has them resolved."""
        self.status = Status.OFF
        self.node: Node | None = None
        self.ingress_delay_s: tuple[float, float] | None = None
        """Bounds of the time by which this host reads its packets late, seconds."""
        self.report: HealthReport | None = None
        self.is_blocked = False
        """Nothing goes out, nothing is read, while its timers run on."""
        self.read_s = 0.0
        """How long it takes to read one of the packets that waited while it stood still, seconds."""
        self._num_pings: int | None = None
        """Pings sent before it was blocked, if its timers stop at the next one."""
        self._network = network
        self._streams = streams
        self._agenda = network.agenda
        self._build = build
        self._listener = listener
        self._seed = seed
        self._random = Random(f"{seed}/host/{number}")
        self._ends: dict[int, End] = {}
        self._backlog: deque[tuple[int, Callable[..., None], tuple[Any, ...]]] = deque()
        self._backlog_bytes = 0
        self._read_at = 0.0
        self._wake_at: float | None = None
        self._wake_number = self._num_wakes = 0
        self._woken_at = -1.0
        self._peer_cache: tuple[Address, ...] = ()

    # --- the machine -----------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """Whether its kernel runs."""
        return self.status in {Status.DOWN, Status.RUNNING, Status.STALLED}

    @property
    def is_listening(self) -> bool:
        """Whether its daemon holds its sockets."""
        return self.status in {Status.RUNNING, Status.STALLED}

    @property
    def host_id(self) -> str:
        """The host's lasting id."""
        return self.identity.host_id

    @property
    def now(self) -> float:
        """What its clock shows."""
        return self.clock.read(self._agenda.now)

    def start(self) -> None:
        """Start the daemon: a new engine under the present identity."""
        self.status = Status.RUNNING
        self._network.attach(self)
        self.node = self._build(
            identity=self.identity,
            address=self.address,
            random=Random(f"{self._seed}/engine/{self.number}/{self.identity.epoch}"),
            now=self.now,
            unix_offset=self.unix_offset,
        )
        if self.report is not None:
            self.node.set_health(self.report, self.now)
        self.node.seed(self._addresses(), self.now)
        self._turn()
        self._agenda.after(TICK_S * self._random.random(), self._tick, self.identity.epoch, 0)

    def stop(self, *, power: bool = False) -> None:
        """End the daemon without a word; with ``power`` the whole machine goes dark."""
        if self.node is not None:
            self._remember_peers()
        self.node = None
        self.status = Status.OFF if power else Status.DOWN
        self._streams.abandon(self.number, resets=not power)
        self._ends.clear()
        self._backlog.clear()
        self._backlog_bytes = 0
        self._wake_at = None

    def leave(self) -> None:
        """Say goodbye, answer a little longer, then exit."""
        assert self.node is not None
        self.node.leave(self.now)
        self._turn()
        self._agenda.after(LINGER_S, self._exit, self.identity.epoch)

    def _exit(self, epoch: int) -> None:
        if epoch == self.identity.epoch and self.node is not None:
            self.stop()

    def restart(self, *, address: Address | None = None, reboot: bool = False) -> None:
        """Start the daemon again as the next epoch, perhaps at a new address or after a reboot."""
        if self.node is not None:
            self.stop()
        if address is not None:
            self._network.detach(self.address)
            self.address = address
        boot_id = self.identity.boot_id
        if reboot:
            boot_id = f"{self._random.getrandbits(128):032x}"
            self.clock = HostClock(
                world_now=self._agenda.now, reads=self._random.uniform(5.0, 60.0), rate=self.clock.rate
            )
        self.identity = replace(
            self.identity, epoch=self.identity.epoch + 1, boot_id=boot_id, is_first_run=False
        )
        self.start()

    def stall(self, duration_s: float) -> None:
        """Stop the daemon for a while (SIGSTOP, a frozen machine): its kernel keeps what comes in."""
        if self.status is Status.RUNNING:
            self.status = Status.STALLED
            self._agenda.after(duration_s, self._resume, self.identity.epoch, Status.STALLED)

    def block(self, duration_s: float, *, holds_probes: bool = False) -> None:
        """Block the daemon before it sends and after it receives; its timers run on.

        ``holds_probes``: they run until the next ping, whose send blocks whatever would have come after it.
        """
        self.is_blocked = True
        self._num_pings = self._count_pings() if holds_probes else None
        self._agenda.after(duration_s, self._unblock, self.identity.epoch)

    def _unblock(self, epoch: int) -> None:
        if epoch == self.identity.epoch and self.node is not None:
            self.is_blocked = False
            if self._num_pings is not None:
                self._run_timer()
            self._turn()  # what it said meanwhile goes out before it reads what others said
            self._read_backlog(epoch)

    def suspend(self, duration_s: float) -> None:
        """Put the machine to sleep: nothing comes in, yet its clock shows the time when it wakes."""
        if self.status is Status.RUNNING:
            self.status = Status.ASLEEP
            self._agenda.after(duration_s, self._resume, self.identity.epoch, Status.ASLEEP)

    def _resume(self, epoch: int, status: Status) -> None:
        if epoch != self.identity.epoch or self.status is not status:
            return
        self.status = Status.RUNNING
        # All that waits is read before any timer runs, as the daemon drains its sockets first.
        self._read_backlog(epoch)

    def _read_backlog(self, epoch: int) -> None:
        while self._backlog:
            if epoch != self.identity.epoch or self.status is not Status.RUNNING or self.is_blocked:
                return
            size_bytes, feed, arguments = self._backlog.popleft()
            self._backlog_bytes -= size_bytes
            feed(*arguments)
            if self.read_s:
                self._turn()
                self._agenda.after(self.read_s, self._read_backlog, epoch)
                return
        if self.node is not None and self.status is Status.RUNNING and not self.is_blocked:
            self._run_timer()
            self._turn()

    def lose_peers(self) -> None:
        """Lose what was kept of the peers, as with the state directory: the seeds alone are left."""
        self._peer_cache = ()

    def set_health(self, report: HealthReport) -> None:
        """Let the health layer conclude something else."""
        self.report = report
        if self.node is not None and self.status is Status.RUNNING:
            self.node.set_health(report, self.now)
            self._turn()

    # --- what the wire brings --------------------------------------------------------------------

    def deliver_datagram(self, data: bytes, source: Address) -> None:
        """Take one datagram off the wire."""
        self._arrive(len(data) + DATAGRAM_OVERHEAD_BYTES, self._feed_datagram, data, source)

    def deliver_unreachable(self, address: Address) -> None:
        """Take the word of a peer's kernel that nobody listens there."""
        if self.is_listening:
            self._arrive(0, self._feed_unreachable, address)

    def deliver_accept(self, end: End, source: Address) -> None:
        """Take a connection."""
        self._arrive(0, self._feed_accept, end, source)

    def deliver_opened(self, end: End) -> None:
        """Take the word that the stream it asked for stands."""
        self._arrive(0, self._feed_opened, end)

    def deliver_data(self, end: End, data: bytes) -> None:
        """Take bytes of a stream."""
        self._arrive(0, self._feed_data, end, data)

    def deliver_closed(self, end: End) -> None:
        """Take the word that a stream has ended."""
        self._arrive(0, self._feed_closed, end)

    def _arrive(self, size_bytes: int, feed: Callable[..., None], *arguments: Any) -> None:
        if self.ingress_delay_s is None:
            self._read(self.identity.epoch, size_bytes, feed, arguments)
            return
        low, high = self.ingress_delay_s
        self._read_at = max(self._read_at, self._agenda.now + self._random.uniform(low, high))
        self._agenda.at(self._read_at, self._read, self.identity.epoch, size_bytes, feed, arguments)

    def _read(
        self, epoch: int, size_bytes: int, feed: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        if self.node is None or epoch != self.identity.epoch:
            return
        if self.status is Status.RUNNING and not self.is_blocked and not self._backlog:
            feed(*arguments)
            self._turn()
        elif size_bytes == 0 or self._backlog_bytes + size_bytes <= RECEIVE_BUFFER_BYTES:
            self._backlog_bytes += size_bytes
            self._backlog.append((size_bytes, feed, arguments))

    def _feed_datagram(self, data: bytes, source: Address) -> None:
        assert self.node is not None
        self.node.handle_datagram(data, source, self.now)

    def _feed_unreachable(self, address: Address) -> None:
        assert self.node is not None
        self.node.handle_unreachable(address, self.now)

    def _feed_accept(self, end: End, source: Address) -> None:
        assert self.node is not None
        stream_id = self.node.handle_stream_accepted(source, self.now)
        if stream_id is None:
            self._streams.close(end)
            return
        end.stream_id = stream_id
        self._ends[stream_id] = end

    def _feed_opened(self, end: End) -> None:
        if self.node is not None and end.stream_id in self._ends:
            self.node.handle_stream_opened(end.stream_id, self.now)

    def _feed_data(self, end: End, data: bytes) -> None:
        if self.node is not None and end.stream_id in self._ends:
            self.node.handle_stream_data(end.stream_id, data, self.now)

    def _feed_closed(self, end: End) -> None:
        number = end.stream_id
        if self.node is not None and number is not None and self._ends.pop(number, None) is not None:
            self.node.handle_stream_closed(number, self.now)

    # --- the shell's loop ------------------------------------------------------------------------

    def _turn(self) -> None:
        node = self.node
        assert node is not None
        if not self.is_blocked:
            for data, destination in node.datagrams_to_send():
                self._network.send_datagram(self, data, destination)
            while (action := node.next_stream_action()) is not None:
                self._act(action)
        while (change := node.next_change()) is not None:
            self._listener.handle_change(self, change)
        while (event := node.next_event()) is not None:
            self._listener.handle_event(self, event)
        self._listener.handle_turn(self)
        self._arm()

    def _act(self, action: StreamAction) -> None:
        if isinstance(action, OpenStream):
            self._ends[action.stream_id] = self._streams.connect(self, action.stream_id, action.address)
        elif isinstance(action, CloseStream):
            end = self._ends.pop(action.stream_id, None)
            if end is not None:
                self._streams.close(end)
        elif (end := self._ends.get(action.stream_id)) is not None:
            self._streams.send(end, action.data)

    def _arm(self) -> None:
        assert self.node is not None
        deadline = self.node.next_deadline()
        if deadline is None:
            return
        due_at = max(self.clock.world_time_of(deadline), self._agenda.now)
        if self._wake_at is None or due_at < self._wake_at:
            self._wake_at = due_at
            self._wake_number += 1
            self._agenda.at(due_at, self._wake, self._wake_number)

    def _wake(self, number: int) -> None:
        if number != self._wake_number or self._wake_at is None:
            return
        self._wake_at = None
        if self.status is Status.RUNNING and not self._is_held() and not self._is_spinning():
            self._run_timer()
            self._turn()

    def _is_held(self) -> bool:
        if not self.is_blocked:  # a single loop reads all that waits before it looks at its timers
            return bool(self._backlog) and self._num_pings is None
        return self._num_pings is not None and self._count_pings() > self._num_pings

    def _count_pings(self) -> int:
        return 0 if self.node is None else self.node.counters.get("sent/ping", 0)

    def _run_timer(self) -> None:
        assert self.node is not None
        deadline = self.node.next_deadline()
        # A nanosecond of grace: the way from the host's clock to the world's and back rounds.
        if deadline is not None and deadline <= self.now + 1e-9:
            self.node.handle_timer(self.clock.read_at_least(self._agenda.now, deadline))
            self._feed_seeds()

    def _is_spinning(self) -> bool:
        if self._woken_at < self._agenda.now:
            self._woken_at = self._agenda.now
            self._num_wakes = 0
        self._num_wakes += 1
        if self._num_wakes < MAX_WAKES_AN_INSTANT:
            return False
        self._listener.handle_fault(self, "timer_spins", "handle_timer leaves a deadline that has passed")
        self._agenda.after(0.01, self._rearm, self.identity.epoch)
        return True

    def _rearm(self, epoch: int) -> None:
        if self.node is not None and epoch == self.identity.epoch:
            self._arm()

    def _tick(self, epoch: int, number: int) -> None:
        if self.node is None or epoch != self.identity.epoch:
            return
        if self.status is Status.RUNNING:
            self._feed_seeds()
            self._turn()
            if number % CACHE_EVERY_TICKS == 0:
                self._remember_peers()
        self._agenda.after(TICK_S, self._tick, epoch, number + 1)

    def _feed_seeds(self) -> None:
        assert self.node is not None
        if self.node.wants_seeds(self.now):
            self.node.seed(self._addresses(), self.now)

    def _remember_peers(self) -> None:
        assert self.node is not None
        self._peer_cache = tuple(row.address for row in self.node.members() if row.host_id != self.host_id)

    def _addresses(self) -> Sequence[Address]:
        return tuple(dict.fromkeys((*self.resolve_seeds(), *self._peer_cache)))
