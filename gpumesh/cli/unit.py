"""Asking systemd to start, restart or reload the daemon's unit, where systemd runs it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from gpumesh.cli.session import Session

UNIT: Final = "gpumesh.service"
_BOOTED_WITH_SYSTEMD: Final = Path("/run/systemd/system")
_ANSWER_S: Final = 60.0
_VERBS: Final = {
    "restart": "restart",  # starts it also where it was stopped
    "restart-if-running": "try-restart",
    "reload": "try-reload-or-restart",
}


def act_on_unit(session: Session, verb: str, *, is_wanted: bool) -> bool:
    """Do ``verb`` (``restart``, ``restart-if-running`` or ``reload``); return whether systemd took it.

    False, and nothing done, where it is not wanted or this system was not booted with systemd.
    """
    systemctl = shutil.which("systemctl")
    if not is_wanted or systemctl is None or not _BOOTED_WITH_SYSTEMD.exists():
        return False
    done = subprocess.run(  # noqa: S603 - fixed arguments
        [systemctl, _VERBS[verb], UNIT], capture_output=True, text=True, timeout=_ANSWER_S, check=False
    )
    if done.returncode:
        reason = done.stderr.strip() or f"exit code {done.returncode}"
        session.terminal.complain(f"systemctl {_VERBS[verb]} {UNIT}: {reason}")
    return done.returncode == 0
