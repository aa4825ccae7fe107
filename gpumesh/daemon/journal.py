"""Events as journal lines: what happened, to whom, why."""

from __future__ import annotations

import logging
from typing import Final

from gpumesh.daemon.logs import with_fields
from gpumesh.model import Event

_log = logging.getLogger("gpumesh.events")

_LEVELS: Final = {
    "host.conflict": logging.WARNING,
    "host.failed": logging.WARNING,
    "host.suspected": logging.INFO,
    "gpu.lost": logging.WARNING,
    "xid": logging.WARNING,
}


def log_event(event: Event) -> None:
    """Write one event to the log."""
    before, after = event.fields.get("from"), event.fields.get("to")
    turn = f" {before} -> {after}" if before and after else ""
    _log.log(
        _LEVELS.get(event.kind, logging.INFO),
        "%s %s%s%s%s",
        event.kind,
        event.host,
        "" if event.subject == "host" else f" {event.subject}",
        turn,
        f": {event.reason}" if event.reason else "",
        extra=with_fields(
            event=event.kind,
            host=event.host,
            host_id=event.host_id,
            subject=event.subject,
            reason=event.reason,
            **dict(event.fields),
        ),
    )
