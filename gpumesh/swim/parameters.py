"""The protocol's settings: what each one means, in which unit, within which bound, and what it trades.

``n`` is the number of members that are not known to be gone. The tables start from memberlist's LAN, WAN
and local profiles, since those are what everybody compares with; where gpumesh has a setting of its own the
text says why. All formulas that depend on ``n`` stand here as functions, so that they are read and tested in
one place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Final

from gpumesh.errors import ConfigError

MAX_FRAME_BYTES: Final = 65_536
"""Largest plaintext of one stream frame; checked against the length prefix before anything is allocated."""

MIN_DATAGRAM_BYTES: Final = 548
"""What every IPv4 host takes (RFC 791: 576 bytes with headers): no path makes datagrams smaller than this."""

DOUBTS_FACTOR: Final = 4
"""Members that may wait for a look, for each probe that may be in flight."""

SMALL_FLEET_SCALE: Final = 1.5
"""What the logarithm of the fleet's size is at least: that of 32 members. A host that reads its packets 2.5 s
late should have the time to be heard in a small fleet, too."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """One profile of the protocol; values are seconds, bytes and counts as the names say."""

    probe_interval_s: float = 1.0
    """Seconds between two probes by one member, > 0. Shorter finds a crash sooner (first suspicion
    comes after about ``interval * e/(e-1)`` on average, SWIM section 3.1) and costs datagrams in
    proportion. Multiplied by the awareness score + 1 (Lifeguard, LHA-Probe)."""
    probe_timeout_s: float = 0.5
    """Seconds to wait for the direct ack, > 0 and < interval. Should exceed the 99th percentile of the
    round trip; shorter brings indirect probes sooner. Multiplied by the awareness score + 1."""
    num_indirect: int = 3
    """Members asked to ping on one's behalf after the direct timeout, 0..16 (SWIM's k). More mask more
    loss on the direct path; each costs up to four datagrams in a failing round only."""
    nack_fraction: float = 0.8
    """Share of the direct timeout after which a relay that got no ack says so, in (0, 1): early enough
    to arrive inside the round (Lifeguard section IV.A)."""
    gossip_interval_s: float = 0.2
    """Seconds between two gossip rounds while there is news, > 0. Shorter spreads faster and costs
    wake-ups."""
    idle_gossip_interval_s: float = 1.0
    """Seconds between two looks for news when the last look found none, ≥ ``gossip_interval_s``. Own
    addition: an idle daemon should not wake five times a second."""
    gossip_fanout: int = 3
    """Members told in each gossip round, 1..32. Rounds to reach everybody ≈ log(n)/log(1 + fan-out)."""
    suspicion_mult: float = 2.0
    """alpha: shortest suspicion is ``alpha * max(1.5, log10 n) * probe_interval`` seconds, ≥ 1. Smaller
    is faster and less forgiving."""
    suspicion_max_mult: float = 6.0
    """beta: longest suspicion is beta times the shortest, ≥ 1. This is how long a lone accuser must
    wait."""
    num_confirmations: int = 3
    """k: independent accusers after which the suspicion has shrunk to the shortest, 0..16 (Lifeguard
    uses alpha - 2). Capped by the number of members that could confirm."""
    num_corroborators: int = 5
    """Members that the first accuser tells at once, and that probe the suspect by all ways when they hear
    it, 0..32; 0 has nobody probe on hearsay. Own addition (Rapid's many observers in SWIM's clothes): a
    true crash is confirmed within half a probe, a false accusation is told to its subject within one round
    trip. Should exceed ``num_confirmations``, since some may be gone or lossy. Cost: about twice this
    many probes a suspicion, whatever n."""
    refusal_s: float = 1.0
    """Shortest suspicion, in seconds, where the member's own kernel says that nobody listens (datagram
    and stream refused), ≥ 0. Nobody is there who could refute, yet a daemon that restarts at once or a filter
    that is being reloaded should not be called dead. It still takes the confirmations."""
    fresh_evidence_s: float = 1.0
    """Seconds for which a direct answer outweighs hearsay, ≥ 0. An accusation that arrives within it is
    examined by a probe before it is believed. Longer is more honest with slow accusers and delays the
    spread of a true accusation by at most one probe."""
    retransmit_mult: int = 4
    """Each piece of news is sent ``mult * ⌈log10(n + 1)⌉`` times by each member, 1..16."""
    sync_interval_s: float = 30.0
    """Seconds between two push/pulls by stream with a random member, > 0; scaled as in
    :func:`sync_interval`. Repairs what gossip missed."""
    reclaim_interval_s: float = 5.0
    """Seconds within which a fleet tries a failed member again, > 0; scaled as in
    :func:`reclaim_interval`. Bounds the time that two healed halves stay apart."""
    reclaim_max_s: float = 60.0
    """Longest time between two such tries by one member, ≥ ``reclaim_interval_s``: the back-off's
    cap."""
    seed_retry_s: float = 1.0
    """First wait before the seeds are asked for again while nobody else is known, > 0; doubles to
    ``seed_retry_max_s``, for ever."""
    seed_retry_max_s: float = 30.0
    """Longest such wait. While others are known, seeds are looked at once in ten times this."""
    weighs_evidence: bool = True
    """Whether the rules of evidence hold that SWIM and Lifeguard lack: hearsay is examined, direct
    answers vouch, accusers show that they themselves hear, a lone accuser looks again, kernels' refusals
    count, a process that stood still puts its judgements off. Off only to compare with the papers."""
    tells_suspects: bool = True
    """Whether a member that stands accused hears so in the next message to it (Lifeguard's buddy system).
    Off only to compare with SWIM."""
    awareness_max: int = 8
    """Scores run 0..max - 1, so an ailing member's intervals stretch by at most this factor, 1..32."""
    stall_s: float = 0.5
    """A timer handled later than this after its deadline means that this process stood still, > 0:
    deadlines of judgement are put off by the gap and the score rises."""
    datagram_bytes: int = 1232
    """Largest datagram, sealed, 576..8900; where the paths to peers carry less, so much is sent
    (:meth:`.engine.Swim.limit_datagrams`). 1,232 and its headers are the 1,280 bytes that each path of IPv6
    has to carry (RFC 8200, section 5): a path that swallows more and does not say so is none the worse."""
    passenger_bytes: int = 400
    """Part of a datagram kept for the passenger even when membership news would fill it, < half of it
    (memberlist#299: user payload starved)."""
    stream_timeout_s: float = 10.0
    """Seconds without progress, and six times that in all, after which a stream is given up, > 0."""
    num_streams: int = 64
    """Streams open at once, both ways together, 4..4096; more are refused."""
    stream_bytes: int = 64 * 1024 * 1024
    """Bytes taken from one stream, ≥ 1 MiB: the table and records of the largest fleet fit well
    inside."""
    num_pending: int = 256
    """Probes, relays and doubts in flight, each bounded by this, ≥ 16."""
    num_broadcasts: int = 2048
    """Pieces of news queued, ≥ 64; the one sent most often gives way (bounded at enqueue,
    consul#9927)."""
    num_members: int = 16_384
    """Rows of the member table, ≥ 16; gone members give way first, and new ones are refused when all
    are live."""
    failed_retention_s: float = 72 * 3600.0
    """Seconds a failed member is remembered and tried, > 0: longer than any outage it should come back
    from by itself."""
    left_retention_s: float = 24 * 3600.0
    """Seconds a goodbye is remembered, so that stale word does not bring the member back
    (memberlist#253)."""
    leave_peers: int = 12
    """Members told directly of a goodbye, in each of three rounds, 1..64. With 30 % loss all of three fail to
    reach anybody once in 10^18."""

    def __post_init__(self) -> None:
        """Check bounds and relations; raises :class:`ConfigError` naming the setting."""
        for item in fields(self):
            value = getattr(self, item.name)
            if not math.isfinite(value) or value < 0:
                raise ConfigError(
                    f"swim parameter {item.name}: must be finite and not negative, is {value!r}"
                )
        _require(
            0 < self.probe_timeout_s < self.probe_interval_s, "probe_timeout_s", "0 < it < probe_interval_s"
        )
        _require(0 < self.nack_fraction < 1, "nack_fraction", "between 0 and 1")
        _require(self.gossip_interval_s > 0, "gossip_interval_s", "> 0")
        _require(
            self.idle_gossip_interval_s >= self.gossip_interval_s,
            "idle_gossip_interval_s",
            ">= gossip_interval_s",
        )
        _require(self.suspicion_mult >= 1, "suspicion_mult", ">= 1")
        _require(self.suspicion_max_mult >= 1, "suspicion_max_mult", ">= 1")
        _require(self.awareness_max >= 1, "awareness_max", ">= 1")
        _require(576 <= self.datagram_bytes <= 8900, "datagram_bytes", "576..8900")  # noqa: PLR2004
        _require(
            self.passenger_bytes * 2 < self.datagram_bytes, "passenger_bytes", "< half of datagram_bytes"
        )
        _require(
            self.reclaim_max_s >= self.reclaim_interval_s > 0, "reclaim_interval_s", "0 < it <= reclaim_max_s"
        )
        _require(self.num_members >= 16, "num_members", ">= 16")  # noqa: PLR2004

    @classmethod
    def for_profile(cls, profile: str) -> Parameters:
        """Return the settings for ``lan``, ``wan`` or ``local``; raises :class:`ConfigError` otherwise."""
        try:
            return PROFILES[profile]
        except KeyError:
            names = ", ".join(sorted(PROFILES))
            raise ConfigError(f"gossip.profile: must be one of {names}, is {profile!r}") from None


def _require(holds: bool, name: str, rule: str) -> None:
    if not holds:
        raise ConfigError(f"swim parameter {name}: must be {rule}")


LAN: Final = Parameters()
WAN: Final = replace(
    LAN,
    probe_interval_s=5.0,
    probe_timeout_s=3.0,
    gossip_interval_s=0.5,
    gossip_fanout=4,
    suspicion_mult=4.0,
    num_confirmations=4,
    num_corroborators=7,
    refusal_s=5.0,
    fresh_evidence_s=5.0,
    sync_interval_s=60.0,
    reclaim_interval_s=10.0,
    reclaim_max_s=120.0,
    stream_timeout_s=30.0,
    stall_s=2.0,
)
LOCAL: Final = replace(
    LAN,
    probe_interval_s=0.2,
    probe_timeout_s=0.1,
    gossip_interval_s=0.04,
    idle_gossip_interval_s=0.2,
    suspicion_mult=3.0,
    refusal_s=0.4,
    fresh_evidence_s=0.2,
    sync_interval_s=6.0,
    reclaim_interval_s=1.0,
    reclaim_max_s=12.0,
    seed_retry_s=0.2,
    seed_retry_max_s=6.0,
    stream_timeout_s=4.0,
)
PROFILES: Final = {"lan": LAN, "wan": WAN, "local": LOCAL}


def suspicion_bounds(parameters: Parameters, num_members: int) -> tuple[float, float]:
    """Return (shortest, longest) suspicion in seconds.

    Shortest: ``alpha * max(1.5, log10 n) * interval``; longest: beta times that.
    """
    scale = max(SMALL_FLEET_SCALE, math.log10(max(1, num_members)))
    shortest = parameters.suspicion_mult * scale * parameters.probe_interval_s
    return shortest, shortest * parameters.suspicion_max_mult


def suspicion_timeout(shortest_s: float, longest_s: float, num_confirmed: int, num_wanted: int) -> float:
    """Return seconds from the start of a suspicion to its verdict (Lifeguard, LHA-Suspicion).

    ``max(min, max - (max - min)*ln(C + 1)/ln(k + 1))``: the first confirmation counts most. With nobody to
    confirm (k = 0) the shortest stands.
    """
    if num_wanted < 1:
        return shortest_s
    share = math.log(num_confirmed + 1) / math.log(num_wanted + 1)
    return max(shortest_s, longest_s - (longest_s - shortest_s) * share)


def retransmit_limit(mult: int, num_members: int) -> int:
    """Return how often one member sends one piece of news: ``mult * ⌈log10(n + 1)⌉``, at least ``mult``."""
    return mult * max(1, math.ceil(math.log10(max(1, num_members) + 1)))


def sync_interval(base_s: float, num_members: int) -> float:
    """Return seconds between two push/pulls: the base up to 32 members, then x(⌈log2 n - 5⌉ + 1)."""
    if num_members <= 32:  # noqa: PLR2004 (the bound is memberlist's)
        return base_s
    return base_s * (math.ceil(math.log2(num_members) - 5) + 1)


def reclaim_interval(parameters: Parameters, num_live: int, num_failed: int) -> float:
    """Return seconds between two tries of failed members by one member: ``base * live / failed``, clamped.

    All live members together so try each failed one about once in ``base`` seconds, whatever the size of the
    fleet; a member that stands alone against many tries one a probe interval, and none backs off beyond
    ``reclaim_max_s``.
    """
    wanted = parameters.reclaim_interval_s * max(1, num_live) / max(1, num_failed)
    return min(max(wanted, parameters.probe_interval_s), parameters.reclaim_max_s)
