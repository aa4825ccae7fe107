"""A refusal of the daemon, apart from the client, so that who asks nothing loads no HTTP."""

from __future__ import annotations

from typing import Any

from gpumesh.errors import GpumeshError

Document = dict[str, Any]


class ProblemError(GpumeshError):
    """The daemon refused: its HTTP status and its words."""

    def __init__(self, status: int, detail: str, document: Document) -> None:
        super().__init__(detail)
        self.status = status
        self.document = document
