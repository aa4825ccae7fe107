"""One prober process seen from the daemon: its pipes, its last words, the call it is in, its end.

What it is asked and when it is given up is decided in :mod:`gpumesh.daemon.prober`.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from gpumesh.daemon.prober_wire import CALL_BYTES, Backend, FrameReader, encode
from gpumesh.errors import RejectedError

MAX_STDERR_BYTES: Final = 4096
_CHUNK_BYTES: Final = 1 << 16
_POLL_S: Final = 0.01
_NOT_FOR_THE_CHILD: Final = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS")


class ProberProcess:
    """A child process that is running, stuck or ended but not yet reaped.

    ``on_frame`` is called for each answer, ``on_end`` once when its answers have ended. Both are called from
    the event loop. Errors of the constructor: OSError if no process can be started.
    """

    def __init__(
        self, backend: Backend, *, on_frame: Callable[[list[Any]], None], on_end: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_frame = on_frame
        self._on_end = on_end
        self._reader = FrameReader()
        self._stderr = b""
        self.is_ended = False
        """Its answers have ended; the process may still be on its way out, or stuck there."""
        self._open_and_start()
        self._loop.add_reader(self._answers, self._handle_answers)
        self._loop.add_reader(self._errors, self._handle_stderr)
        self.send("configure", backend)

    def _open_and_start(self) -> None:
        with ExitStack() as ours, ExitStack() as theirs:
            requests, self._requests = _pipe(read=theirs, write=ours)
            self._answers, answers = _pipe(read=ours, write=theirs)
            self._errors, errors = _pipe(read=ours, write=theirs)
            record = os.memfd_create("gpumesh-prober-call")
            theirs.callback(os.close, record)
            os.ftruncate(record, CALL_BYTES)
            self._record = mmap.mmap(record, CALL_BYTES)
            descriptors = (requests, answers, record)
            # The kernel ties the child to the thread that starts it: this is never done in a worker thread.
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [
                    sys.executable,
                    "-m",
                    "gpumesh.daemon.prober_child",
                    *map(str, descriptors),
                    str(os.getpid()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=errors,  # driver libraries print to it
                stderr=errors,
                pass_fds=descriptors,
                cwd="/",
                env=_environment(),
            )
            ours.pop_all()
        for descriptor in (self._requests, self._answers, self._errors):
            os.set_blocking(descriptor, False)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def call(self) -> str:
        """The driver call that it announced last; empty between two rounds."""
        return self._record[:CALL_BYTES].rstrip(b"\0").decode(errors="replace")

    @property
    def last_words(self) -> str:
        """The end of what it, or a library in it, printed."""
        return self._stderr.decode(errors="replace").strip()

    def send(self, kind: str, *contents: Any) -> None:
        """Ask; a child that has ended is noticed by the end of its answers, not here."""
        if self._requests < 0:
            return
        with suppress(BrokenPipeError, BlockingIOError):
            os.write(self._requests, encode(kind, *contents))

    def ask_to_end(self) -> None:
        """Close its requests: it lets go of the driver and ends, once it gets out of the call it is in."""
        if self._requests >= 0:
            os.close(self._requests)
            self._requests = -1

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL, which can wedge a GPU (dcgm-exporter#84): only long after SIGTERM."""
        self._process.kill()

    def is_reaped(self) -> bool:
        """Whether the process is gone; one in the kernel's hands (state D) is not."""
        return self._process.poll() is not None

    async def wait_reaped(self, timeout_s: float) -> bool:
        """Wait until the process is gone; False if it is not within ``timeout_s``."""
        deadline_at = self._loop.time() + timeout_s
        while not self.is_reaped():
            if self._loop.time() >= deadline_at:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    def how_it_ended(self) -> str:
        """Say how the process ended, with its last line."""
        code = self._process.poll()
        if self._errors >= 0:
            self._handle_stderr()
        if code is None:
            text = "has closed its answers but does not end"
        elif code < 0:
            text = f"was ended by signal {-code} ({_signal_name(-code)})"
        else:
            text = f"ended with exit status {code}"
        return f"{text}: {self.last_words.splitlines()[-1]}" if self.last_words else text

    def release(self) -> None:
        """Close everything on this side; the process is left alone."""
        self.ask_to_end()
        for name in ("_answers", "_errors"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                self._loop.remove_reader(descriptor)
                os.close(descriptor)
                setattr(self, name, -1)
        self._record.close()

    def _handle_answers(self) -> None:
        try:
            while data := os.read(self._answers, _CHUNK_BYTES):
                for frame in self._reader.feed(data):
                    self._on_frame(frame)
        except BlockingIOError:
            return
        except (RejectedError, LookupError, TypeError, ValueError, OSError) as error:
            # A torn answer: the memory of that process cannot be trusted any more.
            self._stderr = f"unreadable answer: {error}".encode()
            self.terminate()
        self._loop.remove_reader(self._answers)
        os.close(self._answers)
        self._answers = -1
        self.is_ended = True
        self._on_end()

    def _handle_stderr(self) -> None:
        try:
            while data := os.read(self._errors, _CHUNK_BYTES):
                self._stderr = (self._stderr + data)[-MAX_STDERR_BYTES:]
        except BlockingIOError:
            return
        except OSError:
            pass
        self._loop.remove_reader(self._errors)
        os.close(self._errors)
        self._errors = -1


def _pipe(*, read: ExitStack, write: ExitStack) -> tuple[int, int]:
    """Return a pipe's two ends, each to be closed by its stack."""
    ends = os.pipe()
    read.callback(os.close, ends[0])
    write.callback(os.close, ends[1])
    return ends


def _environment() -> dict[str, str]:
    """Return this process's environment, with the places where it finds its own modules."""
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_THE_CHILD}
    environment["PYTHONPATH"] = os.pathsep.join(str(Path(item).absolute()) for item in sys.path)
    return environment


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
