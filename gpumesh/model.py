"""The shared words as frozen values: what engines hand to each other and to the outside.

Nothing here computes; ``docs/architecture.md`` says who makes which value and who reads it.
Instants named ``*_at`` are seconds on the host's boot clock (CLOCK_BOOTTIME) and mean nothing elsewhere;
instants named ``since`` are Unix seconds, for people only: no decision is ever taken on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

Scalar = str | int | float | bool | None
"""What evidence and labels may hold."""

_EMPTY: Mapping[str, str] = MappingProxyType({})


class Word(str, Enum):
    """An enumeration whose members are the words shown outside, the same on every Python."""

    def __str__(self) -> str:
        return str(self.value)


class Reachability(Word):
    """What observers see of a host. A timeout and a goodbye are never mixed up."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    FAILED = "failed"
    LEFT = "left"


LIVE: Final = (Reachability.ALIVE, Reachability.SUSPECT)
"""Part of the fleet: neither gone nor given up."""


class Admission(Word):
    """What the owner of a host says about new work."""

    OPEN = "open"
    CORDONED = "cordoned"
    DRAINING = "draining"
    OCCUPIED = "occupied"
    OFF_HOURS = "off-hours"


class Phase(Word):
    """Where a host stands after its start or a recovery; written by the owner into its ``lease`` entry."""

    JOINING = "joining"
    COOLDOWN = "cooldown"
    SETTLED = "settled"


class HostState(Word):
    """The headline state of a host, declared worst first: the order of members is the precedence."""

    FAILED = "failed"
    LEFT = "left"
    SUSPECT = "suspect"
    ISOLATED = "isolated"
    UNHEALTHY = "unhealthy"
    DRAINING = "draining"
    CORDONED = "cordoned"
    DEGRADED = "degraded"
    COOLDOWN = "cooldown"
    OCCUPIED = "occupied"
    OFF_HOURS = "off-hours"
    JOINING = "joining"
    READY = "ready"


class Severity(Word):
    """How bad one finding is."""

    INFO = "info"
    WARNING = "warning"
    """Degrades its subject."""
    CRITICAL = "critical"
    """Makes its subject unhealthy."""


class Action(Word):
    """What an operator should do about a finding."""

    NONE = "none"
    TELL_OWNER = "tell the job's owner"
    RESET = "drain and reset"
    REBOOT = "reboot"
    INSPECT = "inspect"
    REPLACE = "replace"
    CONFIGURE = "configure"


class Verdict(Word):
    """All findings of a subject with hysteresis. Unknown is never healthy."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class Address(NamedTuple):
    """An IP literal (never a name) and a port, for UDP and TCP alike."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this daemon run is."""

    host_id: str
    """Canonical lower-case UUID, made once and kept in the state directory."""
    name: str
    """For people; need not be unique."""
    epoch: int
    """Which run of this host's daemon: grows with each start, never from the wall clock."""
    boot_id: str
    """The kernel's ``random/boot_id``; tells a reboot from a restart."""
    is_first_run: bool = False
    """No earlier run of this host is known, so no cooldown is owed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact that a check found."""

    check: str
    """The check's name, e.g. ``inventory``, ``temperature``, ``driver``."""
    subject: str
    """``host`` or ``gpu/<uuid>``."""
    severity: Severity
    reason: str
    """One sentence for a person, with the numbers in it."""
    action: Action = Action.NONE
    advice: str = ""
    """What to do, in words; empty where ``action`` says it all."""
    evidence: Mapping[str, Scalar] = field(default_factory=dict)
    since: float = 0.0
    """Unix seconds at which the finding first stood."""
    silenced_until: float | None = None
    """Unix seconds until which an operator silenced it: it is shown and does not count. None: it counts."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card as the fleet knows it: identity, verdict, and whether it is free. No raw readings."""

    uuid: str
    index: int | None
    """The driver's index now; None for a card that is known but gone."""
    model: str
    memory_bytes: int | None = None
    """Total framebuffer; None where the card cannot say."""
    memory_free_bytes: int | None = None
    """Free framebuffer, rounded down to a sixteenth of the total so that only real changes travel."""
    capability: str | None = None
    """CUDA compute capability, e.g. ``8.9``."""
    pci_bus_id: str = ""
    is_busy: bool | None = None
    """A compute process holds the card; None where the driver cannot say (never taken for free)."""
    verdict: Verdict = Verdict.UNKNOWN
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class BaselineItem:
    """One line of the access baseline: what is expected and what was found."""

    name: str
    """``driver``, ``cuda``, ``container-toolkit``, ``kernel``, or a condition such as ``cdi``."""
    expected: str
    found: str | None
    """None: could not be read."""
    is_met: bool | None
    """None: unknown, because nothing was found to compare."""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The outcome of holding this host to its access baseline."""

    mode: str
    """``warn`` or ``enforce``."""
    source: str
    """The file it was read from, or ``built-in``."""
    items: tuple[BaselineItem, ...] = ()


@dataclass(frozen=True, slots=True)
class HealthReport:
    """What the health layer concludes about this host; the owner publishes it in its record."""

    verdict: Verdict
    """Of the host itself, its GPUs left aside."""
    findings: tuple[Finding, ...] = ()
    """Those whose subject is ``host``."""
    gpus: tuple[Gpu, ...] = ()
    driver_version: str | None = None
    cuda_version: str | None = None
    """Highest CUDA the driver supports, e.g. ``12.4``."""
    baseline: Baseline | None = None


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The ``host`` entry of a record: what changes only when the daemon starts again."""

    name: str
    boot_id: str
    version: str = ""
    """gpumesh's own."""
    os: str = ""
    kernel: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    http: str = ""
    """``host:port`` of its HTTP face if that is off loopback, else empty."""


@dataclass(frozen=True, slots=True)
class HostView:
    """One host as this host sees it now."""

    host_id: str
    address: Address
    epoch: int
    incarnation: int
    reachability: Reachability
    state: HostState
    reason: str
    """Why it is in that state, in one sentence; empty for ``ready``."""
    state_since: float
    """Unix seconds at which this observer saw the state begin."""
    evidence_age_s: float | None
    """Seconds since the last evidence of life; 0 for the host itself, None if never heard."""
    facts: HostFacts | None = None
    """None until its record has arrived."""
    admission: Admission = Admission.OPEN
    admission_reason: str = ""
    phase: Phase = Phase.JOINING
    health: HealthReport | None = None
    is_isolated: bool = False
    is_self: bool = False
    transport: str = "udp"
    """``udp``; degraded are ``stream``, when only streams get through, and ``return``, when the host is not
    reached at its address but answers where it calls from (a router in front of it)."""

    @property
    def name(self) -> str:
        """The host's name for people, or the start of its id until its record has arrived."""
        return self.facts.name if self.facts else self.host_id[:8]


@dataclass(frozen=True, slots=True)
class View:
    """One host's immutable snapshot of the fleet; everything outward is computed from a view."""

    self_id: str
    at: float
    """Boot clock of the observer, seconds."""
    fleet: str
    """The fleet's label."""
    hosts: tuple[HostView, ...]
    """Sorted by ``host_id``; always holds the observer itself."""
    mass_failure: bool = False
    """More than half of the fleet failed within one lease: this host suspects itself (lease/brake.py)."""

    def host(self, host_id: str) -> HostView | None:
        """Return the host with this id, or None."""
        return next((host for host in self.hosts if host.host_id == host_id), None)

    @property
    def me(self) -> HostView:
        """The observer itself."""
        return next(host for host in self.hosts if host.is_self)


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody wants placed."""

    key: str
    """Names the work; the same key and view give the same answer on every host."""
    num_gpus: int = 1
    memory_bytes: int = 0
    """Free framebuffer needed on each GPU."""
    model: str = ""
    """Case-insensitive part of the model's name; empty: any."""
    capability: str = ""
    """Lowest compute capability, e.g. ``8.0``; empty: any."""
    driver: str = ""
    """Lowest driver version; empty: any."""
    cuda: str = ""
    """Lowest CUDA version the driver must support; empty: any."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Each must be present and equal on the host."""
    anti_affinity: tuple[str, ...] = ()
    """Host ids or names that must not be chosen."""
    allow_degraded: bool = True
    """Whether the healthy GPUs of a ``degraded`` host may be used."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one host cannot take the request."""

    host_id: str
    name: str
    code: str
    """Short stable word: ``state``, ``label``, ``model``, ``memory``, ``gpus``, ``driver`` …"""
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One host that could take the request, with the GPUs it would use."""

    host_id: str
    name: str
    gpus: tuple[str, ...]
    """GPU UUIDs, best fit first."""
    rank: int
    """Position in the rendezvous order, 0 is first."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a request: where to run it, the order to try, and why not elsewhere."""

    request: Request
    chosen: Candidate | None
    ranking: tuple[Candidate, ...]
    """All fit hosts in the order in which they are to be asked; ``chosen`` is the first."""
    rejections: tuple[Rejection, ...]
    reason: str = ""
    """Why nothing was chosen; empty when something was."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, for the journal, ``/v1/events`` and ``gpumesh events``."""

    kind: str
    """What happened, such as ``host.joined``, ``host.state``, ``gpu.lost``, …"""
    time: float
    """Unix seconds."""
    host_id: str
    host: str
    """The host's name for people."""
    subject: str
    """``host``, ``gpu/<uuid>``, ``baseline`` …"""
    reason: str
    fields: Mapping[str, Scalar] = field(default_factory=dict)
    """Kind-specific: ``from``/``to`` of a state change, ``incarnation`` …"""


@lru_cache(maxsize=32_768)
def host_id_text(raw: bytes) -> str:
    """Return a host id of 16 bytes as it is written; one string for one id, which stands in a dozen tables.

    Bounded, which Python's own interning is not: 3.12 never lets go of what was interned, and whoever has the
    fleet's key could fill the memory with ids.
    """
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
