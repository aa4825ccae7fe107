"""The daemon: who it is, what it is wired to, how it starts, changes and stops."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpumesh.config import Config
from gpumesh.daemon.admission import AdmissionBook
from gpumesh.daemon.clock import boot_time, unix_offset
from gpumesh.daemon.hardware import read_hardware
from gpumesh.daemon.identity import claim_identity, keep_epoch, read_boot_id
from gpumesh.daemon.journal import log_event
from gpumesh.daemon.lock import RunLock
from gpumesh.daemon.look import Look
from gpumesh.daemon.meeting import Meeting
from gpumesh.daemon.notify import Notifier
from gpumesh.daemon.ownfindings import OwnFindings
from gpumesh.daemon.paths import watch_paths
from gpumesh.daemon.release import ReleaseRequest
from gpumesh.daemon.reloading import take_up
from gpumesh.daemon.sealing import read_keyring, read_sealing
from gpumesh.daemon.serving import Serving, StartError, facts_of, in_words
from gpumesh.daemon.shell import Shell
from gpumesh.daemon.silencebook import SilenceBook, subject_named
from gpumesh.daemon.sockets import GossipSocket
from gpumesh.daemon.statedir import StateDirectory
from gpumesh.daemon.whereabouts import Whereabouts
from gpumesh.health.devices import Probe
from gpumesh.health.silences import Silence
from gpumesh.mesh.engine import Mesh
from gpumesh.model import LIVE, Address, Admission, Event, Finding, HostState, Identity, View
from gpumesh.status.feed import EventFeed

GOODBYE_S: Final = 0.6
"""How long a leaving daemon goes on answering, so that its goodbye is heard even where packets are lost."""

RELEASE_S: Final = 8.0
"""How long a request to let go of the driver waits for its answer; the command line waits for 10 s."""

_log = logging.getLogger(__name__)


class Daemon:
    """One run of the daemon: ``start``, ``wait``, ``stop``. It is the status layer's source.

    Errors on construction: StateError (another daemon uses the state directory), FleetKeyError, ConfigError.
    """

    def __init__(self, config: Config, notifier: Notifier, root: Path = Path("/")) -> None:
        self._config = config
        self._root = root
        self._notifier = notifier
        self._sealing = read_sealing(config.gossip)
        runtime = Path(config.control.socket).parent
        self._state = StateDirectory(Path(config.host.state_dir), runtime)
        self._lock = RunLock(self._state.path / "lock")
        self._lock.take()
        claim = claim_identity(
            self._state,
            read_hardware(root, runtime),
            name=_name(config),
            boot_id=read_boot_id(root),
            fleet=self._sealing.member_of,
        )
        for note in claim.notes:
            _log.warning("%s", note)
        self._identity = claim.identity
        self._admission = AdmissionBook(self._state)
        self._silences = SilenceBook(self._state)
        self._release = ReleaseRequest()
        self._feed = EventFeed(run=claim.identity.epoch)
        self._serving = Serving()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._fault: BaseException | None = None
        self._is_status_stale = True

    # Start, wait, stop.

    async def start(self) -> None:
        """Bind, wire, begin to look and to gossip. Errors: :class:`StartError`."""
        self._socket = _bind_gossip(self._sealing.bind)
        self._sealer = self._sealing.make_sealer()
        self._own = OwnFindings(self._state, self._sealer)
        self._meeting = Meeting(self._config.gossip.seeds, self._state)
        await self._meeting.resolve_seeds()
        self._whereabouts = Whereabouts(
            self._socket.address, self._config.gossip.advertise, self._meeting.known()
        )
        self._mesh = Mesh(
            identity=self._identity,
            config=self._config,
            facts=facts_of(self._identity, self._config),
            address=self._whereabouts.address,
            sealer=self._sealer,
            random=random.SystemRandom(),
            now=boot_time(),
            unix_offset=unix_offset(),
        )
        self._shell = Shell(
            self._mesh, self._socket, boot_time, on_progress=self._take_progress, on_output=self._take_events
        )
        self._look = Look(
            self._config,
            self._state,
            self._mesh,
            identity=self._identity,
            silences=self._silences.silences,
            own_findings=self._own_findings,
            lend=self._lend,
            on_report=self._take_report,
            on_event=self._publish_event,
            is_drained=lambda: self._admission.current[0] is Admission.DRAINING,
            asked_release=lambda: self._release.words(boot_time()),
            clock_offset=self._mesh.clock_offset,
            root=self._root,
        )
        self._publish_admission()
        self._look.begin()
        await self._open()
        self._begin_work()
        _log.info(
            "host %s (%s), epoch %d, fleet %s, gossip on %s, known to peers as %s",
            self._identity.name,
            self._identity.host_id,
            self._identity.epoch,
            self._config.gossip.fleet,
            self._socket.address,
            self._whereabouts.address,
        )

    async def wait(self) -> None:
        """Return once somebody asked the daemon to stop. Errors: a fault of ours that ended part of it."""
        await self._stopping.wait()
        if self._fault is not None:
            raise self._fault

    def begin_stop(self) -> None:
        """Ask the daemon to stop."""
        self._stopping.set()

    async def stop(self) -> None:
        """Say goodbye, let go of the driver, close everything."""
        self._notifier.stopping()
        self._meeting.keep(self._mesh)
        num_others = sum(host.reachability in LIVE for host in self.view().hosts) - 1
        _log.info("stopping: this host says goodbye (hosts of its fleet that are up: %d)", num_others)
        self._mesh.leave(boot_time())
        self._shell.pump()
        goodbye = asyncio.get_running_loop().create_task(asyncio.sleep(GOODBYE_S))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._serving.close()
        await self._look.close()
        await goodbye
        await self._shell.close()
        self._lock.release()
        _log.info("stopped")

    def reload(self, config: Config) -> list[str]:
        """Take up what of a changed configuration can be; return the keys that need a restart.

        Errors: FleetKeyError or ConfigError (a wrong key or baseline file); then nothing is taken up.
        """
        self._notifier.reloading()
        try:
            effective, waiting = take_up(self._config, config)
            keyring = read_keyring(effective.gossip)
            self._look.reconfigure(effective)
            if keyring is not None and self._sealing.keyring is not None:
                self._sealer.rekey(keyring)
            self._config = effective
            self._meeting.seeds = effective.gossip.seeds
            self._mesh.set_facts(facts_of(self._identity, effective), boot_time())
            self._shell.pump()
        finally:
            self._notifier.ready()
        if (keyring is None) != (self._sealing.keyring is None) and "gossip.key_file" not in waiting:
            waiting.append("gossip.key_file")
        return waiting

    # What the status layer asks (gpumesh.status.source.StatusSource).

    def view(self) -> View:
        """Return the fleet as this host sees it now."""
        return self._mesh.view(boot_time())

    def readings(self) -> Probe | None:
        """Return the latest raw look at the cards."""
        return self._look.latest

    def identity(self) -> Identity:
        """Return who this run is."""
        return self._identity

    def counters(self) -> Mapping[str, float]:
        """Return the daemon's internals for metrics."""
        return {
            **self._mesh.counters,
            **self._socket.counters,
            **self._look.counters,
            "receive_buffer_bytes": self._socket.receive_buffer_bytes,
            "state_losses": len(self._state.losses),
            **self._meeting.sizes,
            **self._feed.sizes,
        }

    def events(self) -> EventFeed:
        """Return the feed of events."""
        return self._feed

    def silences(self) -> tuple[Silence, ...]:
        """Return the silences that stand."""
        return self._silences.standing()

    def is_ready(self) -> tuple[bool, str]:
        """Return whether this host takes new work, and if not, why."""
        me = self.view().me
        return me.state is HostState.READY, me.reason or me.state.value

    # What the control socket asks (gpumesh.daemon.control.Controlled).

    def set_operator_admission(self, admission: Admission, reason: str) -> None:
        """Take the operator's word on new work; kept across restarts."""
        self._admission.set_operator(admission, reason)
        self._publish_admission()

    def silence(self, check: str, gpu: str, for_s: float, reason: str) -> Silence:
        """Silence a check on this host or one of its cards, at once; kept across restarts.

        Errors: RequestError.
        """
        made = self._silences.add(check, self._subject(gpu), for_s, reason)
        self._look.take_silences()
        _log.info("%s is silenced for %g s: %s", check, for_s, reason)
        return made

    def end_silence(self, check: str, gpu: str) -> None:
        """End a silence before its time. Errors: RequestError."""
        self._silences.end(check, self._subject(gpu))
        self._look.take_silences()

    async def release(self, for_s: float, reason: str) -> tuple[bool, float]:
        """Let go of the driver for a time; return whether it is let go of by now, and until when.

        Errors: RequestError.
        """
        now = boot_time()
        self._release.ask(for_s, reason, now=now, unix=now + unix_offset())
        _log.info("the driver is let go of for %g s, as asked: %s", for_s, reason or "no reason given")
        self._look.wake()
        return await self._look.wait_released(RELEASE_S), self._release.until

    def end_release(self) -> None:
        """Take the driver up again. Errors: RequestError if nobody asked to let go of it."""
        self._release.end(boot_time())
        self._look.wake()

    def begin_leave(self) -> None:
        """Say goodbye and stop, once the answer to the request has gone out."""
        asyncio.get_running_loop().call_later(0.05, self.begin_stop)

    # Wiring.

    def _subject(self, gpu: str) -> str:
        health = self.view().me.health
        return subject_named(gpu, health.gpus if health else ())

    def _move(self, address: Address) -> None:
        self._mesh.set_address(address, boot_time())
        self._shell.pump()

    def _handle_end_of(self, task: asyncio.Task[None]) -> None:
        """Stop, to be started afresh, where a fault of ours ended what must run for as long as the daemon."""
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._fault = self._fault or fault
            self.begin_stop()

    def _begin_work(self) -> None:
        """Start what runs for as long as the daemon."""
        loop = asyncio.get_running_loop()
        for work in (
            self._look.run(),
            self._meeting.run(self._mesh, self._shell.pump),
            self._whereabouts.watch(self._meeting.known, self._move),
            watch_paths(self._meeting.addresses, self._mesh.limit_datagrams),
        ):
            task = loop.create_task(work)
            task.add_done_callback(self._handle_end_of)
            self._tasks.append(task)

    async def _open(self) -> None:
        """Open all listeners, or none."""
        try:
            await self._shell.start()
            await self._serving.start(self, self, self._config)
        except OSError as error:
            await self._shell.close()
            raise StartError(f"gossip streams on {self._socket.address}: {in_words(error)}") from error
        except StartError:
            await self._serving.close()
            await self._shell.close()
            raise

    def _own_findings(self, now: float, unix: float) -> tuple[Finding, ...]:
        return self._own.standing(lambda: self._mesh.counters, self.view, now, unix)

    def _take_progress(self) -> None:
        self._notifier.feed_watchdog(boot_time())
        self._meeting.notice(self._mesh)

    def _take_report(self) -> None:
        """Send what a look led to; renew the wall clock for people and, after news, the one-line status."""
        self._mesh.unix_offset = unix_offset()
        self._shell.pump()
        if self._is_status_stale:
            self._is_status_stale = False
            self._notifier.status(self._status_line())

    def _lend(self, admission: Admission, reason: str) -> None:
        self._admission.set_sharing(admission, reason)
        self._publish_admission()

    def _publish_admission(self) -> None:
        self._mesh.set_admission(*self._admission.current, boot_time())
        self._shell.pump()

    def _take_events(self) -> None:
        if self._mesh.epoch != self._identity.epoch:
            _log.warning(
                "the fleet remembers a later run of this host than %s does (lost, or restored from a "
                "backup): it goes on as epoch %d instead of %d",
                self._state.path,
                self._mesh.epoch,
                self._identity.epoch,
            )
            self._identity = keep_epoch(self._state, self._identity, self._mesh.epoch)
        while (event := self._mesh.next_event()) is not None:
            self._own.handle_event(event, boot_time())
            self._publish_event(event)

    def _publish_event(self, event: Event) -> None:
        self._is_status_stale = True
        self._feed.publish(event)
        log_event(event)

    def _status_line(self) -> str:
        view = self.view()
        gpus = len(view.me.health.gpus) if view.me.health else 0
        reason = f" ({view.me.reason})" if view.me.reason else ""
        return f"{view.me.state}{reason}; {gpus} GPUs here, {len(view.hosts) - 1} other hosts known"


def _name(config: Config) -> str:
    return config.host.name or socket.gethostname().split(".", 1)[0] or "unnamed"


def _bind_gossip(bind: Address) -> GossipSocket:
    try:
        return GossipSocket(bind)
    except OSError as error:
        raise StartError(
            f'gossip.bind = "{bind}": {in_words(error)}; another daemon may run here (`systemctl status '
            "gpumesh`), or the address is not of this host"
        ) from error
