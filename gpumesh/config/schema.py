"""Every key of ``gpumesh.toml`` with its unit, bounds and trade-off.

Sections and names are fixed by the outside face; ``docs/gpumesh.toml`` is made from this file
(``make golden-update``), so an operator reads what the code does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gpumesh.config.fields import (
    boolean,
    choice,
    duration,
    duration_or_auto,
    endpoint,
    integer,
    labels,
    parse_endpoint,
    text,
    texts,
)
from gpumesh.config.health import HealthConfig

_HOURS = r"(\d{1,2}:\d{2}-\d{1,2}:\d{2}(\s*,\s*\d{1,2}:\d{2}-\d{1,2}:\d{2})*)?"


@dataclass(frozen=True, slots=True)
class HostConfig:
    """This host."""

    name: str = text("name", "", "Name shown to people; empty takes the system's host name.")
    labels: tuple[tuple[str, str], ...] = labels(
        "labels", 'Free labels that requests can ask for, such as { room = "2", tier = "gold" }.'
    )
    state_dir: str = text(
        "state_dir", "/var/lib/gpumesh", "Where identity, epoch, inventory and the peer cache are kept."
    )

    @property
    def label_map(self) -> Mapping[str, str]:
        """The labels as a read-only mapping."""
        return MappingProxyType(dict(self.labels))


@dataclass(frozen=True, slots=True)
class GossipConfig:
    """How this host finds and hears its peers."""

    fleet: str = text(
        "fleet",
        "default",
        "The fleet's label. Authenticated: hosts of another label are refused, even with the same key.",
        pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
        hint="1 to 63 letters, digits, dots, dashes or underscores",
    )
    bind: str = endpoint(
        "bind",
        "[::]:7977",
        'Address and port for gossip, UDP and TCP alike. "[::]:7977" is every address of this host, IPv6 and '
        'IPv4; "0.0.0.0:7977" is IPv4 alone. Peers use one address of each host (see `advertise`), so all '
        "hosts of a fleet need one family in common. Without a key the daemon binds to loopback only and "
        "runs alone.",
    )
    advertise: str = endpoint(
        "advertise",
        "",
        "Address and port under which peers reach this host; empty: the address of the route to the seeds, "
        "followed as the network changes: IPv4 where the host has it, unless all seeds are IPv6. Set it "
        "behind NAT, and to an IPv6 address on hosts with both where others of the fleet have IPv6 alone.",
        is_own=True,
    )
    seeds: tuple[str, ...] = texts(
        "seeds",
        "Hosts to join by, as name:port or address:port. Resolved again at each attempt and tried for ever; "
        "two or three are enough, and a host may list itself.",
        check=parse_endpoint,
    )
    key_file: str = text(
        "key_file",
        "/etc/gpumesh/fleet.key",
        "The fleet's keys, base64, one a line, 32 bytes each: the first one is used to send, all are "
        "accepted. Must not be readable by others.",
    )
    profile: str = choice(
        "profile",
        "lan",
        ("lan", "wan", "local"),
        "Timing of failure detection: lan probes each 1 s, wan each 5 s (for links over 200 ms), local each "
        "0.2 s (tests and demo on one machine). Must be the same in the whole fleet.",
    )


@dataclass(frozen=True, slots=True)
class LeaseConfig:
    """When a host may hold work. Must be the same in the whole fleet."""

    heartbeat_s: float = duration(
        "heartbeat",
        "5s",
        "How often the host looks at itself and raises its beat. Shorter notices a stuck daemon sooner and "
        "costs one evaluation each.",
        low="100ms",
        high="60s",
    )
    ttl_s: float = duration(
        "ttl",
        "30s",
        "How long after the last evidence of life a host may still be believed to hold work. Must be at "
        "least heartbeat x failures.",
        low="500ms",
        high="1h",
    )
    failures: int = integer(
        "failures",
        3,
        "Missed beats after which a silent host is given up, and after which a host that hears nobody calls "
        "itself isolated.",
        low=1,
        high=20,
    )
    cooldown_s: float = duration(
        "cooldown",
        "60s",
        "How long a host that restarted or recovered takes no new work. Longer is calmer, shorter is quicker "
        "back in service.",
        low="0s",
        high="1h",
    )


@dataclass(frozen=True, slots=True)
class GpuConfig:
    """How the GPUs are looked at."""

    backend: str = choice(
        "backend",
        "nvml",
        ("nvml", "simulated"),
        "nvml reads real cards; simulated makes them up (demo, tests).",
    )
    interval_s: float = duration(
        "interval",
        "5s",
        "Time between two looks at the cards. Shorter sees a lost card sooner and asks more of the driver.",
        low="200ms",
        high="10m",
    )
    interval_min_s: float | None = duration_or_auto(
        "interval_min",
        "Time between two looks while a fault is about to be told or to go. At most gpu.interval, which "
        "switches this off; auto: two fifths of it.",
        low="100ms",
        high="10m",
    )
    interval_max_s: float | None = duration_or_auto(
        "interval_max",
        "Time between two looks at a host at rest with nothing to report, towards which it grows, and where "
        "looks are slow. From gpu.interval, which switches this off, to lease.ttl: what peers hold of this "
        "host is never older than a lease. auto: one and a half times gpu.interval at rest, twice where "
        "looks are slow, within that.",
        low="200ms",
        high="10m",
    )
    deadline_s: float = duration(
        "deadline",
        "5s",
        "How long one look may take before the driver counts as not answering. Drivers without persistence "
        "mode can need seconds for the first.",
        low="200ms",
        high="5m",
    )
    expected: int = integer(
        "expected",
        0,
        "How many GPUs this host must have; 0 takes what was seen before, as kept in the inventory.",
        low=0,
        high=64,
    )
    simulated: tuple[str, ...] = texts(
        "simulated", 'With backend = "simulated": a profile a card, such as ["rtx-4080-super", "h100"].'
    )
    simulated_faults: str = text(
        "simulated_faults",
        "",
        'With backend = "simulated": a TOML file of faults, read again when it changes. For tests.',
    )


@dataclass(frozen=True, slots=True)
class BaselineConfig:
    """What driver, CUDA, container toolkit and kernel this host is held to."""

    file: str = text(
        "file",
        "",
        "TOML file with what is expected (`gpumesh baseline capture` writes one); empty takes the built-in "
        'baseline, "modern" the one that is shipped for CUDA 12.8 and later.',
    )
    mode: str = choice(
        "mode",
        "warn",
        ("warn", "enforce"),
        "warn degrades nothing and tells; enforce takes no work off baseline.",
    )


@dataclass(frozen=True, slots=True)
class SharingConfig:
    """When the owner lends this host's cards."""

    mode: str = choice(
        "mode",
        "always",
        ("always", "idle", "schedule"),
        "always lends; idle lends while nobody else's process is on a GPU; schedule lends within hours.",
    )
    idle_after_s: float = duration(
        "idle_after", "15m", "With idle: how long the cards must have been free.", low="0s", high="24h"
    )
    hours: str = text(
        "hours",
        "",
        'With schedule: local times at which to lend, such as "22:00-07:00" or "12:00-13:30,20:00-06:00".',
        pattern=_HOURS,
        hint='ranges of local time such as "22:00-07:00"',
    )
    ignore_processes: tuple[str, ...] = texts(
        "ignore_processes", "With idle: names of programs that do not count as a person's, such as Xorg."
    )


@dataclass(frozen=True, slots=True)
class JobsConfig:
    """Running work for others: off unless the owner says otherwise."""

    accept: bool = boolean(
        "accept",
        "Whether this host runs others' jobs. This version places but does not launch: keep false.",
        default=False,
    )


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """The read-only HTTP face."""

    listen: str = endpoint("listen", "127.0.0.1:9477", "Address of the HTTP API and of /metrics.")
    metrics_listen: str = endpoint(
        "metrics_listen", "", 'A second address for /metrics alone, such as "0.0.0.0:9400"; empty: none.'
    )


@dataclass(frozen=True, slots=True)
class ControlConfig:
    """Where changes are taken."""

    socket: str = text(
        "socket",
        "/run/gpumesh/control.sock",
        "Unix socket for cordon, drain, leave; its group may write to it. At most 107 bytes long.",
        pattern=r"/.{1,106}",
        hint="an absolute path of at most 107 bytes, the kernel's limit for Unix sockets",
    )


@dataclass(frozen=True, slots=True)
class LogConfig:
    """What goes to the journal."""

    level: str = choice(
        "level", "info", ("debug", "info", "warning", "error"), "Least severe level that is logged."
    )
    format: str = choice("format", "plain", ("plain", "json"), "plain for people, json one object a line.")


@dataclass(frozen=True, slots=True)
class Config:
    """The whole of ``gpumesh.toml``; every value checked, defaults filled in."""

    host: HostConfig = field(default_factory=HostConfig)
    gossip: GossipConfig = field(default_factory=GossipConfig)
    lease: LeaseConfig = field(default_factory=LeaseConfig)
    gpu: GpuConfig = field(default_factory=GpuConfig)
    health: HealthConfig = field(default_factory=HealthConfig)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)
    sharing: SharingConfig = field(default_factory=SharingConfig)
    jobs: JobsConfig = field(default_factory=JobsConfig)
    http: HttpConfig = field(default_factory=HttpConfig)
    control: ControlConfig = field(default_factory=ControlConfig)
    log: LogConfig = field(default_factory=LogConfig)
    source: str = ""
    """The file it was read from; empty for defaults."""

    @property
    def shortest_look_s(self) -> float:
        """The least time between two looks at the cards, in seconds."""
        given = self.gpu.interval_min_s
        return self.gpu.interval_s * 0.4 if given is None else given

    @property
    def longest_look_s(self) -> float:
        """The most time between two looks at the cards, in seconds; never beyond a lease by itself."""
        return self._long_look_s(2.0)

    @property
    def resting_look_s(self) -> float:
        """The most time between two looks at cards at rest: a fault there is known in ten seconds, too."""
        return self._long_look_s(1.5)

    def _long_look_s(self, factor: float) -> float:
        given = self.gpu.interval_max_s
        if given is not None:
            return given
        return max(self.gpu.interval_s, min(factor * self.gpu.interval_s, self.lease.ttl_s))
