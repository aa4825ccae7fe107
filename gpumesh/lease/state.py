"""The headline state of a host: reachability, lease, verdict and admission in one order of precedence.

The order of :data:`RULES` is that of :class:`~gpumesh.model.HostState`, worst first; the first rule that has
something to say gives the state and a sentence for the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gpumesh.lease.condition import condition, is_released
from gpumesh.model import Admission, HealthReport, HostState, Phase, Reachability


@dataclass(frozen=True, slots=True)
class Standing:
    """All that an observer knows of one host when it judges its state."""

    reachability: Reachability
    """After the lease was applied: an expired lease is ``failed`` whatever membership still believes."""
    reachability_reason: str = ""
    health: HealthReport | None = None
    """None until the record of the host's present run has wholly arrived."""
    admission: Admission = Admission.OPEN
    admission_reason: str = ""
    phase: Phase = Phase.SETTLED
    phase_reason: str = ""
    is_isolated: bool = False


def _reached(wanted: Reachability, otherwise: str) -> Callable[[Standing], str]:
    def rule(standing: Standing) -> str:
        return (standing.reachability_reason or otherwise) if standing.reachability is wanted else ""

    return rule


def _admits(wanted: Admission, otherwise: str) -> Callable[[Standing], str]:
    def rule(standing: Standing) -> str:
        return (standing.admission_reason or otherwise) if standing.admission is wanted else ""

    return rule


def _is_condition(wanted: HostState) -> Callable[[Standing], str]:
    def rule(standing: Standing) -> str:
        if standing.health is None:
            return ""
        state, reason = condition(standing.health)
        return reason if state is wanted else ""

    return rule


def _unhealthy(standing: Standing) -> str:
    if standing.admission is Admission.DRAINING and standing.health and is_released(standing.health):
        return ""  # the operator asked for it and must not be alarmed by it
    return _is_condition(HostState.UNHEALTHY)(standing)


def _isolated(standing: Standing) -> str:
    return "it hears none of its peers" if standing.is_isolated else ""


def _cooling(standing: Standing) -> str:
    if standing.phase is not Phase.COOLDOWN:
        return ""
    return "takes no new work yet: " + (standing.phase_reason or "it came back only now")


def _joining(standing: Standing) -> str:
    if standing.health is None:
        return "its record has not arrived yet"
    return "it has not met its fleet yet" if standing.phase is Phase.JOINING else ""


Rule = Callable[[Standing], str]

RULES: Final[tuple[tuple[HostState, Rule], ...]] = (
    (HostState.FAILED, _reached(Reachability.FAILED, "no sign of life")),
    (HostState.LEFT, _reached(Reachability.LEFT, "it said goodbye")),
    (HostState.SUSPECT, _reached(Reachability.SUSPECT, "it did not answer; others are being asked")),
    (HostState.ISOLATED, _isolated),
    (HostState.UNHEALTHY, _unhealthy),
    (HostState.DRAINING, _admits(Admission.DRAINING, "drained by its operator")),
    (HostState.CORDONED, _admits(Admission.CORDONED, "cordoned by its operator")),
    (HostState.DEGRADED, _is_condition(HostState.DEGRADED)),
    (HostState.COOLDOWN, _cooling),
    (HostState.OCCUPIED, _admits(Admission.OCCUPIED, "a person uses its cards")),
    (HostState.OFF_HOURS, _admits(Admission.OFF_HOURS, "outside the hours in which it is lent")),
    (HostState.JOINING, _joining),
)
"""State and the rule that says why a host is in it, empty when it is not; no rule left means ``ready``."""


def headline(standing: Standing) -> tuple[HostState, str]:
    """Return the worst state that applies and why, in one sentence; ``ready`` with an empty one."""
    for state, rule in RULES:
        reason = rule(standing)
        if reason:
            return state, reason
    return HostState.READY, ""
