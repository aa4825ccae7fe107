"""What the daemon finds about itself: told beside the health findings, and no reason to take no work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from gpumesh.daemon.doubles import Doubles
from gpumesh.daemon.statedir import StateDirectory
from gpumesh.model import LIVE, Event, Finding, HostView, Severity, View

KEY_CLEARS_S: Final = 120.0
"""How long after the last datagram under an unknown key it is still told."""
FLEET_EVERY_S: Final = 30.0
"""How often all hosts are looked at: in a large fleet that is a lot to look at."""
_MAX_NAMED: Final = 3
_REFUSED: Final = ("drops/unknown_key", "drops/stream_unknown_key")


class Keys(Protocol):
    """The part of the sealer that knows about keys."""

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Ids of the keys accepted, the sending one first."""
        ...

    @property
    def unknown_key_id(self) -> str | None:
        """Id of the last key seen that is not in the ring."""
        ...


class OwnFindings:
    """Findings of the daemon itself, each with the instant since when it stands."""

    def __init__(self, state: StateDirectory, keys: Keys) -> None:
        self._state = state
        self._keys = keys
        self._since: dict[tuple[str, str], float] = {}
        self._num_refused = 0
        self._refused_at = float("-inf")
        self._fleet_at = float("-inf")
        self._of_fleet: tuple[tuple[str, str, str], ...] = ()
        self._doubles = Doubles()

    def handle_event(self, event: Event, now: float) -> None:
        """Take what the mesh tells: of conflicts about this host a finding comes."""
        self._doubles.handle_event(event, now)

    def standing(
        self,
        counters: Callable[[], Mapping[str, float]],
        view: Callable[[], View],
        now: float,
        unix: float,
    ) -> tuple[Finding, ...]:
        """Return what stands now; ``counters`` gives the daemon's own, ``view`` the fleet as seen now."""
        if now - self._fleet_at >= FLEET_EVERY_S:
            self._fleet_at, self._of_fleet = now, tuple(_of_fleet(view()))
        doubles = self._doubles.standing(view, now)
        found = (*self._losses(), *self._foreign_key(counters, now), *doubles, *self._of_fleet)
        self._since = {(check, reason): self._since.get((check, reason), unix) for check, reason, _ in found}
        return tuple(
            Finding(
                check=check,
                subject="host",
                severity=Severity.INFO,
                reason=reason,
                advice=advice,
                since=self._since[check, reason],
            )
            for check, reason, advice in found
        )

    def _losses(self) -> Iterator[tuple[str, str, str]]:
        for reason in self._state.losses.values():
            yield "state-directory", reason, f"make {self._state.path} writable and give it space"

    def _foreign_key(
        self, counters: Callable[[], Mapping[str, float]], now: float
    ) -> Iterator[tuple[str, str, str]]:
        """Tell of datagrams under a key that this host lacks: rotated while it was off, or a stranger."""
        key_id = self._keys.unknown_key_id
        if key_id is None:
            return
        counted = counters()
        num_refused = int(sum(counted.get(name, 0) for name in _REFUSED))
        if num_refused > self._num_refused:
            self._num_refused, self._refused_at = num_refused, now
        if now - self._refused_at > KEY_CLEARS_S:
            return
        mine = self._keys.key_ids[0] if self._keys.key_ids else "none"
        reason = (
            f"others here send with key {key_id}, which this host does not have; it sends with key {mine}"
        )
        advice = (
            f"if {key_id} is this fleet's key, take it over from a member: `sudo gpumesh keys add KEY` or "
            "`sudo gpumesh join --force TOKEN`; if not, a host of another fleet is in touch"
        )
        yield "fleet-key", reason, advice


def _of_fleet(view: View) -> Iterator[tuple[str, str, str]]:
    others = [host for host in view.hosts if not host.is_self and host.reachability in LIVE]
    yield from _namesakes(view.me.name, others)
    yield from _transport(others)


def _namesakes(name: str, others: list[HostView]) -> Iterator[tuple[str, str, str]]:
    """Tell of living hosts that people call by the same name; the fleet itself knows hosts by their ids."""
    alike = [f"{host.host_id} at {host.address}" for host in others if host.name.lower() == name.lower()]
    if alike:
        more = f" and {len(alike) - _MAX_NAMED} more" if len(alike) > _MAX_NAMED else ""
        reason = f"this host is called {name}, and so is {', '.join(alike[:_MAX_NAMED])}{more}"
        yield "host-name", reason, "give one of them another `host.name`; until then ask for hosts by id"


def _transport(others: list[HostView]) -> Iterator[tuple[str, str, str]]:
    """Tell that no datagram gets through (alertmanager#1564: ready all the same, and nobody knew)."""
    if others and all(host.transport == "stream" for host in others):
        reason = f"gossip with all {len(others)} other hosts goes by TCP, for no datagram gets through"
        yield "gossip-transport", reason, "let UDP on the port of `gossip.bind` pass, both ways"
