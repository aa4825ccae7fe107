"""The placement rule: a pure function of request and view, the same answer on every host for the same view.

Filter, each refusal with its reason; order the fit hosts by weighted rendezvous; take the tightest fit among
the first four. Four choices keep room for gangs, which plain rendezvous would refuse though the fleet has
cards for them; yet a change of one host moves little. Integers only, ties by id.
"""

from __future__ import annotations

from typing import Final

from gpumesh.model import Candidate, Decision, Rejection, Request, View
from gpumesh.placement import rendezvous
from gpumesh.placement.fitness import Fit, examine, rules_for

NUM_CHOICES: Final = 4
"""How many of the first hosts in rendezvous order compete by fit."""

_MASS_FAILURE: Final = (
    "more than half of the fleet failed within one lease: this host may be the one that is cut off, so it "
    "places nothing until the others are back or have stayed away; ask another host, or look at the network"
)


def place(request: Request, view: View) -> Decision:
    """Return where the request should run, the order to try, and for every other host why not."""
    fits: dict[str, Fit] = {}
    rejections: list[Rejection] = []
    rules = rules_for(request)
    for host in sorted(view.hosts, key=lambda item: item.host_id):
        outcome = examine(request, host, rules)
        if isinstance(outcome, Fit):
            fits[host.host_id] = outcome
        else:
            rejections.append(outcome)
    if view.mass_failure:
        hosts = [fit.host for fit in fits.values()]
        refused = [Rejection(host.host_id, host.name, "brake", _MASS_FAILURE) for host in hosts]
        every = sorted([*rejections, *refused], key=lambda item: item.host_id)
        return Decision(request, None, (), tuple(every), _MASS_FAILURE)
    ranking = _ranking(request, fits)
    reason = "" if ranking else _why_nowhere(rejections)
    return Decision(request, ranking[0] if ranking else None, ranking, tuple(rejections), reason)


def _ranking(request: Request, fits: dict[str, Fit]) -> tuple[Candidate, ...]:
    preferred = rendezvous.order(request.key, ((host_id, fit.num_free) for host_id, fit in fits.items()))
    ranked = [(rank, fits[host_id]) for rank, host_id in enumerate(preferred)]

    def tightness(item: tuple[int, Fit]) -> tuple[int, int, int]:
        rank, fit = item
        return (fit.num_free - request.num_gpus, fit.left_bytes, rank)

    ranked[:NUM_CHOICES] = sorted(ranked[:NUM_CHOICES], key=tightness)
    return tuple(
        Candidate(fit.host.host_id, fit.host.name, tuple(gpu.uuid for gpu in fit.gpus), rank)
        for rank, fit in ranked
    )


def _why_nowhere(rejections: list[Rejection]) -> str:
    """Sum up why no host was fit: how many failed at what, most frequent first."""
    if not rejections:
        return "this view holds no host"
    counts: dict[str, int] = {}
    for rejection in rejections:
        counts[rejection.code] = counts.get(rejection.code, 0) + 1
    told = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    parts = ", ".join(f"{number} by {code}" for code, number in told)
    noun = "host" if len(rejections) == 1 else "hosts"
    return f"no host fits; of {len(rejections)} {noun} refused: {parts}"
