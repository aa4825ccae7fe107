"""The sets of rules by which a simulated fleet judges: this one's, and those that it is compared with.

Each is what differs from a profile's own parameters; the engine is the same, its rules of evidence are off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OWN: Final = "gpumesh"
SWIM: Final[Mapping[str, float]] = {
    "suspicion_mult": 5.0,
    "suspicion_max_mult": 1.0,
    "num_confirmations": 0,
    "num_corroborators": 0,
    "fresh_evidence_s": 0.0,
    "awareness_max": 1,
    "weighs_evidence": False,
    "tells_suspects": False,
}
"""SWIM as Lifeguard's paper has it for a baseline: alpha 5, beta 1, none of Lifeguard's parts."""
LIFEGUARD: Final[Mapping[str, float]] = {
    **SWIM,
    "suspicion_max_mult": 6.0,
    "num_confirmations": 3,
    "awareness_max": 8,
    "tells_suspects": True,
}
"""Lifeguard: alpha 5, beta 6, k 3, local health and buddies."""
RULES: Final[Mapping[str, Mapping[str, float]]] = {"swim": SWIM, "lifeguard": LIFEGUARD, OWN: {}}
