"""Finding one host by what a person types: its id, the start of its id, or its name."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from gpumesh.errors import did_you_mean
from gpumesh.model import HostView, View
from gpumesh.status.problem import ProblemError

_MIN_PREFIX: Final = 4
_MAX_LISTED: Final = 20


def find_host(view: View, wanted: str) -> HostView:
    """Return the one host that ``wanted`` means: an exact id first, then names, then starts of ids.

    Errors: :class:`ProblemError` 404 with the nearest name, 409 with all hosts that it could mean.
    """
    exact = view.host(wanted.lower())
    if exact is not None:
        return exact
    matches = [host for host in view.hosts if host.name.lower() == wanted.lower()]
    if not matches and len(wanted) >= _MIN_PREFIX:
        matches = [host for host in view.hosts if host.host_id.startswith(wanted.lower())]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        names = [host.name for host in view.hosts]
        hint = did_you_mean(wanted, names, "`gpumesh fleet` and /v1/fleet list all")
        raise ProblemError(
            HTTPStatus.NOT_FOUND, f"no host {wanted!r} in this fleet; {hint}", kind="no-such-host"
        )
    listed = [{"host_id": host.host_id, "name": host.name} for host in matches[:_MAX_LISTED]]
    raise ProblemError(
        HTTPStatus.CONFLICT,
        f"{wanted!r} means {len(matches)} hosts; ask by id",
        kind="ambiguous",
        matches=listed,
    )
