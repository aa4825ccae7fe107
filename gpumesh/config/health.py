"""The ``[health]`` section: what the health checks go by, one key a threshold.

A check names the keys that it goes by in its rules (``gpumesh/health/rules.py``), so that docs/health.md
shows each finding with its settings, and a test refuses a key that no rule names.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from gpumesh.config.fields import Setting, duration, integer

_AFTER = "{} Less tells sooner, also of what passes by itself."


def _after(key: str, default: str, what: str, *, low: str = "0s", high: str = "24h") -> Any:
    """Declare for how long something must be seen without a break before it is a finding."""
    return duration(key, default, _AFTER.format(what), low=low, high=high)


@dataclass(frozen=True, slots=True)
class HealthConfig:
    """Thresholds of the health checks; docs/health.md has each one's finding and source."""

    clean_looks: int = integer(
        "clean_looks",
        3,
        "Looks in a row without a fault that every recovery needs. More is calmer, fewer is quicker back.",
        low=1,
        high=100,
    )
    recover_after_s: float = duration(
        "recover_after",
        "0s",
        "Least time without a fault that every recovery needs, where its own is shorter.",
        low="0s",
        high="24h",
    )
    told_for_s: float = duration(
        "told_for",
        "24h",
        "How long a change of the inventory that is no fault, such as a new card, is told.",
        low="1m",
        high="720h",
    )
    pci_after_s: float = _after(
        "pci_after", "30s", "How long a card on the PCI bus may be missing from the driver's list."
    )
    partial_after_s: float = _after("partial_after", "15s", "How long some call on a card may go on failing.")
    warm_c: int = integer(
        "warm",
        80,
        "Degrees Celsius above which a card that names no limit of its own counts as warm.",
        low=40,
        high=120,
    )
    warm_after_s: float = _after("warm_after", "5m", "How long a card may be warm.")
    hot_c: int = integer(
        "hot",
        85,
        "Degrees Celsius above which a card that names no limit of its own counts as hot. Above health.warm.",
        low=41,
        high=130,
    )
    hot_after_s: float = _after("hot_after", "1m", "How long a card, or its memory, may be hot.")
    slowdown_minutes: int = integer(
        "slowdown_minutes",
        6,
        "In how many of the last ten minutes the hardware must have slowed a card down for it to be told.",
        low=1,
        high=10,
    )
    soft_thermal_after_s: float = _after(
        "soft_thermal_after", "30m", "How long the driver may hold clocks down to keep a card cool."
    )
    fan_hot_c: int = integer(
        "fan_hot",
        70,
        "Degrees Celsius from which a fan must not stand still. Many cards rest theirs below 60.",
        low=40,
        high=120,
    )
    fan_after_s: float = _after("fan_after", "1m", "How long the fan of a hot card may stand still.")
    ecc_uncorrected: int = integer(
        "ecc_uncorrected",
        1,
        "Uncorrected memory errors since the last reset from which a card is unhealthy. Above 1, wrong "
        "results are borne.",
        low=1,
        high=1_000_000,
    )
    ecc_sram_corrected: int = integer(
        "ecc_sram_corrected",
        10_000,
        "Corrected errors in a card's caches since the last reset from which they are too many.",
        low=1,
        high=1_000_000_000,
    )
    ecc_dram_corrected: int = integer(
        "ecc_dram_corrected",
        20_000_000,
        "Corrected errors in a card's memory since the last reset from which they are too many.",
        low=1,
        high=1_000_000_000_000,
    )
    ecc_sram_rate: int = integer(
        "ecc_sram_rate",
        1_000,
        "Corrected errors in a card's caches within an hour from which it is told.",
        low=1,
        high=1_000_000_000,
    )
    ecc_dram_rate: int = integer(
        "ecc_dram_rate",
        1_000_000,
        "Corrected errors in a card's memory within an hour from which it is told.",
        low=1,
        high=1_000_000_000_000,
    )
    remapped_rows: int = integer(
        "remapped_rows",
        512,
        "Rows remapped after uncorrectable errors from which a card's replacement is to be planned.",
        low=1,
        high=1_000_000,
    )
    retired_pages: int = integer(
        "retired_pages",
        63,
        "Retired pages from which a card is to be replaced; the table holds 64.",
        low=1,
        high=64,
    )
    retired_double_bit: int = integer(
        "retired_double_bit",
        15,
        "Pages retired for double-bit errors that are borne while they do not become more.",
        low=0,
        high=64,
    )
    retired_a_week: int = integer(
        "retired_a_week",
        1,
        "Beyond health.retired_double_bit: pages retired for double-bit errors that are borne within a week.",
        low=0,
        high=64,
    )
    xid_told_for_s: float = duration(
        "xid_told_for",
        "1h",
        "How long an Xid that is not the card's fault is told.",
        low="1m",
        high="168h",
    )
    xid_settle_s: float = duration(
        "xid_settle",
        "10m",
        "How long a card must answer without its Xid, and its driver ask for nothing, for it to count as "
        "recovered.",
        low="1m",
        high="168h",
    )
    xid_settle_untold_s: float = duration(
        "xid_settle_untold",
        "24h",
        "The same where the driver is too old to say whether the card needs recovery.",
        low="1m",
        high="168h",
    )
    link_load: int = integer(
        "link_load",
        20,
        "Per cent of utilisation from which a card counts as working, and its link must be at full speed.",
        low=1,
        high=100,
    )
    pcie_after_s: float = _after("pcie_after", "1m", "How long a PCIe link may be narrow or slow.")
    replay_factor: int = integer(
        "replay_factor",
        1,
        "How many times DCGM's PCIe replays a minute and lane are borne. Raise it for cards on risers.",
        low=1,
        high=1000,
    )
    replays_after_s: float = _after(
        "replays_after", "1m", "How long there may be more PCIe replays than are borne."
    )
    nvlink_down_after_s: float = _after("nvlink_down_after", "1m", "How long an NVLink may be down.")
    nvlink_crc: int = integer(
        "nvlink_crc", 100, "NVLink CRC errors a second from which they are too many.", low=1, high=1_000_000
    )
    nvlink_replays: int = integer(
        "nvlink_replays", 1, "NVLink replays a minute from which they are too many.", low=1, high=1_000_000
    )
    nvlink_recoveries: int = integer(
        "nvlink_recoveries",
        1,
        "NVLink recoveries a minute from which they are too many: a link that recovers was down.",
        low=1,
        high=1_000_000,
    )
    nvlink_errors_after_s: float = _after(
        "nvlink_errors_after", "1m", "How long there may be too many errors on NVLinks."
    )
    slow_percent: int = integer(
        "slow_clock",
        50,
        "Per cent of its highest clock below which a loaded card without a reason for it counts as slow; 0 "
        "where clocks are locked on purpose.",
        low=0,
        high=100,
    )
    slow_load: int = integer(
        "slow_load", 95, "Per cent of utilisation from which a card must run at its clocks.", low=1, high=100
    )
    slow_power: int = integer(
        "slow_power",
        50,
        "Per cent of its power limit below which a loaded card with low clocks counts as slow.",
        low=1,
        high=100,
    )
    slow_after_s: float = _after("slow_after", "10m", "How long a loaded card may be slow.")
    stuck_load: int = integer(
        "stuck_load",
        100,
        "Per cent of utilisation from which a card without a process counts as stuck.",
        low=1,
        high=100,
    )
    stuck_after_s: float = _after(
        "stuck_after", "10m", "How long a card may be fully used by nobody.", low="1m"
    )
    leak_after_s: float = _after("leak_after", "10m", "How long memory may be held by nobody.", low="1m")
    leak_mib: int = integer(
        "leak_memory",
        1024,
        "MiB held by nobody from which it counts as a leak: drivers and desktops hold a few hundred.",
        low=64,
        high=1048576,
    )
    leftover_after_s: float = _after(
        "leftover_after",
        "10m",
        "How long a process that has ended, or cannot end, may hold a card.",
        low="1m",
    )
    mig_after_s: float = _after("mig_after", "1m", "How long MIG may be on without an instance.")
    fabric_after_s: float = _after(
        "fabric_after", "5m", "How long a card may take to register with its NVLink fabric."
    )
    slow_look_s: float = duration(
        "slow_look",
        "5s",
        "How long a look at all cards may take before it counts as slow; half of gpu.deadline where that is "
        "less.",
        low="100ms",
        high="5m",
    )
    slow_look_after_s: float = _after("slow_look_after", "1m", "How long looks may be slow.")

    def value(self, key: str) -> float:
        """Return what stands under ``key``, durations in seconds. Errors: KeyError for no such key."""
        return float(getattr(self, _FIELD_OF[key]))

    @staticmethod
    def setting(key: str) -> Setting:
        """Return the declaration of ``key``. Errors: KeyError for no such key."""
        return _SETTINGS[key]


_SETTINGS: dict[str, Setting] = {
    item.metadata["setting"].key: item.metadata["setting"] for item in fields(HealthConfig)
}
_FIELD_OF: dict[str, str] = {item.metadata["setting"].key: item.name for item in fields(HealthConfig)}
