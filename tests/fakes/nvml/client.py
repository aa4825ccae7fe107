"""A process of its own that asks the fake driver through the real pynvml, one expression at a time."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, final

PATIENCE_S = 60.0
"""How long an answer may take before it is held to be hung; far beyond what a slow machine needs."""

_ASKED = """
import json, sys
import pynvml as n

def handle(index):
    return n.nvmlDeviceGetHandleByIndex(index)

def answer(line):
    try:
        try:
            code = compile(line, "asked", "eval")
        except SyntaxError:
            exec(line, globals())
            return {"value": None}
        return {"value": eval(code, globals())}
    except n.NVMLError as error:
        return {"error": error.value}

for line in sys.stdin:
    print(json.dumps(answer(line)), flush=True)
"""


@final
class DriverClient:
    """Runs lines of Python in a child in which ``n`` is pynvml and ``handle(index)`` gives a device.

    The child ends with the ``with`` block. ``bindings`` is a folder with another pynvml than
    the installed one.
    """

    def __init__(self, library: Path | None, state: Path, *, bindings: Path | None = None) -> None:
        environment = {**os.environ, "GPUMESH_FAKE_NVML": str(state)}
        environment.pop("LD_LIBRARY_PATH", None)
        if library is not None:
            environment["LD_LIBRARY_PATH"] = str(library)
        if bindings is not None:
            environment["PYTHONPATH"] = str(bindings)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _ASKED],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> DriverClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> str:
        """Kill the child if it is still there, and return what it wrote to stderr."""
        self.process.kill()
        return self.process.communicate()[1]

    def begin(self, line: str) -> None:
        """Ask without waiting for the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def has_answer(self, within_s: float) -> bool:
        """Whether the answer to what was begun is there by then."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], within_s)[0])

    def finish(self) -> dict[str, Any]:
        """The answer to what was begun: {"value": ...} or {"error": code}.

        :raises TimeoutError: none came
        :raises EOFError: the child is gone
        """
        assert self.process.stdout is not None
        if not self.has_answer(PATIENCE_S):
            raise TimeoutError(f"no answer in {PATIENCE_S} s")
        line = self.process.stdout.readline()
        if not line:
            raise EOFError(f"the asking process ended: {self.end()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def value(self, line: str) -> Any:
        """What the expression gives; a statement gives None. A call that NVML refuses fails the assertion."""
        self.begin(line)
        answer = self.finish()
        assert "error" not in answer, f"{line}: NVML error {answer['error']}"
        return answer["value"]

    def error(self, line: str) -> int:
        """The code with which NVML refuses the call; one that succeeds fails the assertion."""
        self.begin(line)
        answer = self.finish()
        assert "error" in answer, f"{line}: no error but {answer['value']!r}"
        return int(answer["error"])
