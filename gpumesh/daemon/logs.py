"""Logging for the journal: plain lines with syslog priorities, or one JSON object a line."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any, Final

_PRIORITY: Final = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}
_FIELDS: Final = "gpumesh_fields"


def set_up_logging(level: str, style: str) -> None:
    """Send everything to standard error in the style asked for (``plain`` or ``json``)."""
    handler = logging.StreamHandler(sys.stderr)
    if style == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(PlainFormatter(with_priority="JOURNAL_STREAM" in os.environ))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("asyncio").setLevel("WARNING")
    logging.getLogger("aiohttp.access").setLevel("WARNING")


def with_fields(**fields: Any) -> dict[str, Any]:
    """Return the ``extra`` argument that carries structured fields into the JSON style."""
    return {_FIELDS: fields}


class PlainFormatter(logging.Formatter):
    """``message``, led by ``<priority>`` where the journal reads it and by the level elsewhere."""

    def __init__(self, *, with_priority: bool) -> None:
        super().__init__("%(message)s")
        self._with_priority = with_priority

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; line breaks in messages cannot forge a second one."""
        text = super().format(record)
        if record.exc_info is None:
            text = text.replace("\n", " | ")
        if self._with_priority:
            prefix = f"<{_PRIORITY.get(record.levelname, 6)}>"
            return "\n".join(prefix + line for line in text.splitlines())
        return f"{record.levelname.lower()}: {text}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message and the record's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object as one line."""
        document: dict[str, Any] = {
            "time": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        document.update(getattr(record, _FIELDS, {}))
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)
