"""What a check is made of: rules as data, symptoms seen in one look, and what the look shows.

A rule stands as a value, and from it come the finding's severity and action, the hysteresis, and the row in
docs/health.md. The docstring of a check's file says what it looks for, and ends with a block that states each
rule's threshold and source; a test holds it to the rules. Adding a check is one file in ``checks/`` and one
line in its registry.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from gpumesh.config import Config, HealthConfig
from gpumesh.health.devices import DeviceInfo, DeviceState, Probe, Reading
from gpumesh.health.hostprobe import HostProbe
from gpumesh.health.stock import Stock
from gpumesh.health.xids import XidRecord
from gpumesh.model import Action, Baseline, Scalar, Severity

HOST: Final = "host"
"""The subject of findings about the host itself."""
THRESHOLDS: Final = "Thresholds:"
"""The line that begins the last block of a check's docstring."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that a check looks for."""

    check: str
    """The check's name, as findings show it."""
    code: str
    """Short stable word, unique within the check."""
    threshold: str
    """When it is seen, for people; ``{fan_hot}`` stands for what ``[health]`` says under that key."""
    severity: Severity
    action: Action
    source: str
    """Where the threshold comes from."""
    advice: str = ""
    """What to do, where the action's word is not enough."""
    stand: str = ""
    """The key of ``[health]`` that says how long it must be seen without a break before it is a finding.

    Empty: a hard fact, at once.
    """
    clear: str = ""
    """The key that says how long it must be away, where that is the site's to say."""
    clear_s: float = 0.0
    """Seconds for which it must be away, besides a few clean looks, before the finding goes."""

    goes_by: tuple[str, ...] = ()
    """Keys that bear on it and stand nowhere else in the rule."""

    @property
    def settings(self) -> tuple[str, ...]:
        """The keys of ``[health]`` that it goes by."""
        named = [name for _, name, _, _ in string.Formatter().parse(self.threshold) if name]
        return tuple(dict.fromkeys([*named, *filter(None, (self.stand, self.clear)), *self.goes_by]))

    def stands_after_s(self, thresholds: HealthConfig) -> float:
        """Return for how long it must be seen before it is a finding."""
        return thresholds.value(self.stand) if self.stand else 0.0

    def goes_after_s(self, thresholds: HealthConfig) -> float:
        """Return for how long it must be away before the finding goes."""
        own_s = thresholds.value(self.clear) if self.clear else self.clear_s
        return max(own_s, thresholds.recover_after_s)


@dataclass(frozen=True, slots=True)
class Symptom:
    """A rule's condition, seen in this look."""

    rule: Rule
    subject: str
    reason: str
    """One sentence with the numbers in it."""
    evidence: Mapping[str, Scalar] = field(default_factory=dict)
    item: str = ""
    """Tells several symptoms of one rule and subject apart."""
    advice: str = ""
    """In place of the rule's, where it depends on what was seen."""
    action: Action | None = None
    """In place of the rule's, where it depends on what was seen."""
    since: float | None = None
    """Unix seconds at which it began, where what was seen tells; None: when it was first seen."""


@dataclass(frozen=True, slots=True)
class Card:
    """One card in one look."""

    info: DeviceInfo
    """What the driver says, or what is remembered if it did not say."""
    state: DeviceState
    reading: Reading
    """Empty when the card could not be read; ``is_read`` tells."""
    is_read: bool
    now: float

    @property
    def subject(self) -> str:
        """The subject of findings about this card."""
        return subject_of(self.info.uuid)


@dataclass(frozen=True, slots=True)
class Look:
    """All that one look shows."""

    probe: Probe
    host: HostProbe
    stock: Stock
    pci_addresses: frozenset[str] | None
    """NVIDIA display controllers on the PCI bus; None: the bus could not be read."""
    baseline: Baseline
    xids: tuple[XidRecord, ...]
    """Every Xid since boot."""
    config: Config
    now: float
    unix: float


class Scope(Enum):
    """What a check is shown."""

    HOST = "host"
    """The whole look, once."""
    CARD = "card"
    """Each card that the driver reaches, readable or not."""
    READING = "reading"
    """Each card that was read."""


SeeHost = Callable[[Look], Iterable[Symptom] | None]
"""Symptoms of this look; None: it cannot tell this time, and what it said before is held."""
SeeCard = Callable[[Card], Iterable[Symptom]]
"""Symptoms of one card. A value that the card does not give is no symptom."""


@dataclass(frozen=True, slots=True)
class HostCheck:
    """A check of the whole look."""

    name: str
    docstring: str
    """Its file's: what it looks for, why and what it leaves alone; then each rule's threshold and source."""
    rules: tuple[Rule, ...]
    start: Callable[[Config], SeeHost]
    """Returns a fresh check; one that remembers keeps its state in what it returns."""


@dataclass(frozen=True, slots=True)
class CardCheck:
    """A check of each card by itself."""

    name: str
    docstring: str
    rules: tuple[Rule, ...]
    start: Callable[[Config], SeeCard]
    scope: Scope = Scope.READING


Check = HostCheck | CardCheck


def about(check: Check) -> str:
    """Return what a check's docstring says before its block of thresholds."""
    return check.docstring.partition(f"\n{THRESHOLDS}\n")[0].strip()


def subject_of(uuid: str) -> str:
    """Return the subject of findings about the card with this UUID."""
    return f"gpu/{uuid}"
