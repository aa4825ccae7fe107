"""The card's way to the host: fewer lanes than it could have at any time, a slow link only while it works.

NVML's maxima already take the slot into account, so a card in a short slot is not blamed for it. At rest a
card lowers its link generation to save power (nvtop#6): that is healthy, and only under load a fault
(open-gpu-kernel-modules#1010). Compute on GeForce runs at P2, so P0 to P2 count as load when the card is in
use.

Thresholds:

- ``width``: fewer lanes than card and slot allow, for 1 min. Keys: ``pcie_after``. Source: own judgement:
  lanes do not change with load.
- ``generation``: a lower link generation than card and slot allow while in use (P0 to P2, at least 20 %
  utilised), for 1 min. Keys: ``link_load``, ``pcie_after``. Source: DCGM judges it at P0 only; nvtop#6, open-
  gpu-kernel-modules#1010.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.rules import Card, CardCheck, Rule, SeeCard, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "pcie"
LOADED_STATE: Final = 2
CLEAR_S: Final = 60.0

WIDTH = Rule(
    NAME,
    "width",
    "fewer lanes than card and slot allow, for {pcie_after}",
    Severity.WARNING,
    Action.INSPECT,
    "own judgement: lanes do not change with load",
    advice="reseat the card, clean its contacts, check riser and slot",
    stand="pcie_after",
    clear_s=CLEAR_S,
)
GENERATION = Rule(
    NAME,
    "generation",
    "a lower link generation than card and slot allow while in use (P0 to P2, at least {link_load} % "
    "utilised), for {pcie_after}",
    Severity.WARNING,
    Action.INSPECT,
    "DCGM judges it at P0 only; nvtop#6, open-gpu-kernel-modules#1010",
    advice="check riser, slot and the BIOS' link speed; some drivers get stuck until a reboot",
    stand="pcie_after",
    clear_s=CLEAR_S,
)


def see(card: Card, least_load: int) -> Iterator[Symptom]:
    """Judge width always and generation under load."""
    reading, info = card.reading, card.info
    width, width_max = reading.pcie_width, info.pcie_width_max
    if width is not None and width_max is not None and 0 < width < width_max:
        reason = f"{width} of {width_max} PCIe lanes are in use"
        yield Symptom(WIDTH, card.subject, reason, {"pcie_width": width, "pcie_width_max": width_max})
    gen, gen_max = reading.pcie_gen, info.pcie_gen_max
    if gen is not None and gen_max is not None and 0 < gen < gen_max and _is_loaded(card, least_load):
        reason = f"PCIe generation {gen} under load, {gen_max} is possible"
        yield Symptom(GENERATION, card.subject, reason, {"pcie_gen": gen, "pcie_gen_max": gen_max})


def _is_loaded(card: Card, least_load: int) -> bool:
    state, percent = card.reading.performance_state, card.reading.utilization_gpu_percent
    return state is not None and percent is not None and state <= LOADED_STATE and percent >= least_load


def _start(config: Config) -> SeeCard:
    return lambda card: see(card, config.health.link_load)


CHECK = CardCheck(NAME, __doc__, (WIDTH, GENERATION), _start)
