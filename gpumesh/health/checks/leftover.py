"""Processes that hold a card although they have ended, or can neither go on nor end.

A process that dies lets go of the card; one that the driver still lists, and that the kernel calls defunct or
does not know, has left something behind that only its parent's end or a reset clears. One that waits inside
the kernel at every look gets no signal, and holds its card until what it waits for comes. What /proc cannot
tell is not judged: in a container numbers are others, and hidden processes are not gone.

A process that lives on after its job is not told from one that is meant to be there: who started it for what
is known only to what runs the jobs, and this version runs none.

Thresholds:

- ``ended``: the driver lists a process that the kernel does not know, for 10 min. Keys: ``leftover_after``.
  Source: VisEdit#5; ten minutes are own judgement.
- ``defunct``: a process on the card is defunct, for 10 min. Keys: ``leftover_after``. Source:
  pytorch/examples#137, mxnet#4242, openpai#5528; ten minutes are own judgement.
- ``waiting``: a process on the card waits inside the kernel at every look, for 10 min. Keys:
  ``leftover_after``. Source: openpai#5528, coolgpus#8; ten minutes are own judgement.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.devices import Process
from gpumesh.health.processtable import GONE
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "leftover"
DEFUNCT: Final = "Z"
WAITING: Final = "D"
_MAX_TOLD: Final = 8
"""Findings of one card; more of them say nothing new."""

ENDED = Rule(
    NAME,
    "ended",
    "the driver lists a process that the kernel does not know, for {leftover_after}",
    Severity.WARNING,
    Action.RESET,
    "VisEdit#5; ten minutes are own judgement",
    advice="nothing is left to end: reset the card when the others on it are done, or reboot",
    stand="leftover_after",
)
ZOMBIE = Rule(
    NAME,
    "defunct",
    "a process on the card is defunct, for {leftover_after}",
    Severity.WARNING,
    Action.RESET,
    "pytorch/examples#137, mxnet#4242, openpai#5528; ten minutes are own judgement",
    advice="end its parent (`ps -o ppid= -p PID`); if it stays on the card, reset that, or reboot",
    stand="leftover_after",
)
STUCK = Rule(
    NAME,
    "waiting",
    "a process on the card waits inside the kernel at every look, for {leftover_after}",
    Severity.INFO,
    Action.TELL_OWNER,
    "openpai#5528, coolgpus#8; ten minutes are own judgement",
    advice="look at `cat /proc/PID/stack`: if it waits for the driver, drain and reboot; if for a file "
    "server, bring that back",
    stand="leftover_after",
)
_RULES: Final = {
    GONE: (ENDED, "which has ended, is still on the card"),
    DEFUNCT: (ZOMBIE, "is defunct and still on the card"),
    WAITING: (STUCK, "waits inside the kernel and gets no signal"),
}


def see(card: Card) -> Iterator[Symptom]:
    """Judge who is on the card by the kernel's word on each."""
    told = [item for item in card.reading.processes or () if item.state in _RULES]
    for process in told[:_MAX_TOLD]:
        rule, words = _RULES[process.state or ""]
        evidence = {
            "pid": process.pid,
            "name": process.name,
            "user": process.user,
            "memory_bytes": process.memory_bytes,
        }
        yield Symptom(rule, card.subject, f"{_who(process)} {words}", evidence, item=str(process.pid))


def _who(process: Process) -> str:
    name = f" ({process.name})" if process.name else ""
    user = f" of {process.user}" if process.user else ""
    return f"process {process.pid}{name}{user}"


def _start(_config: Config) -> SeeCard:
    return see


CHECK = CardCheck(NAME, __doc__, (ENDED, ZOMBIE, STUCK), _start)
