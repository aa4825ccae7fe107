"""A fleet of five hosts in five conditions, and a source that shows it: what status and CLI tests look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpumesh.health.devices import DeviceInfo, DeviceState, DriverInfo, Probe, Process, Reading
from gpumesh.health.silences import Silence
from gpumesh.model import (
    Action,
    Address,
    Admission,
    Baseline,
    BaselineItem,
    Finding,
    Gpu,
    HealthReport,
    HostFacts,
    HostState,
    HostView,
    Identity,
    Phase,
    Reachability,
    Severity,
    Verdict,
    View,
)
from gpumesh.status.feed import EventFeed

NOW = 1_800_000_000.0
"""Unix seconds at which people look: 2027-01-15T08:00:00Z."""
GIB = 1 << 30
SELF_ID = "11111111-1111-4111-8111-111111111111"
BOOT_ID = "b0070000-0000-4000-8000-000000000001"


def uuid_of(host: int, card: int) -> str:
    return f"GPU-{host:08d}-0000-0000-0000-{card:012d}"


def gpu(
    host: int, card: int, *, verdict: Verdict = Verdict.HEALTHY, findings: tuple[Finding, ...] = ()
) -> Gpu:
    return Gpu(
        uuid_of(host, card),
        index=card,
        model="NVIDIA GeForce RTX 4080 SUPER",
        memory_bytes=16 * GIB,
        memory_free_bytes=15 * GIB,
        capability="8.9",
        pci_bus_id=f"00000000:0{card + 1}:00.0",
        is_busy=False,
        verdict=verdict,
        findings=findings,
    )


BASELINE = Baseline(
    "warn",
    "built-in",
    (
        BaselineItem("driver", "535.154.05 or 550.54.14 and later", "550.54.14", is_met=True),
        BaselineItem("container-toolkit", "1.14.3 or later", None, is_met=None),
    ),
)
HEALTHY = HealthReport(Verdict.HEALTHY, (), (gpu(1, 0), gpu(1, 1)), "550.54.14", "12.4", BASELINE)
LOST = Finding(
    "inventory",
    f"gpu/{uuid_of(2, 1)}",
    Severity.CRITICAL,
    "1 of 2 cards is gone: the driver says that the GPU is lost (NVML 15)",
    Action.REBOOT,
    "drain the host, then reboot it; if the card does not come back, reseat it",
    {"nvml": 15, "expected": 2},
    NOW - 300,
)
XID = Finding(
    "xid",
    f"gpu/{uuid_of(2, 1)}",
    Severity.CRITICAL,
    "Xid 79: fell off the bus",
    Action.REBOOT,
    "",
    {"xid": 79},
)
NO_DRIVER = Finding(
    "driver",
    "host",
    Severity.CRITICAL,
    "no NVIDIA driver answers: the library libnvidia-ml.so.1 is not installed (NVML 12)",
    Action.CONFIGURE,
    "install the driver (on Debian: apt install nvidia-driver) and load it with `modprobe nvidia`",
    since=NOW - 60,
)


def host(number: int, state: HostState = HostState.READY, reason: str = "", **changes: object) -> HostView:
    view = HostView(
        host_id=f"{number}" * 8 + SELF_ID[8:],
        address=Address(f"10.0.0.{number}", 7977),
        epoch=number,
        incarnation=0,
        reachability=Reachability.ALIVE,
        state=state,
        reason=reason,
        state_since=NOW - 180,
        evidence_age_s=1.5,
        facts=HostFacts(
            f"pc{number:02d}",
            BOOT_ID,
            "0.1.0",
            "Debian GNU/Linux 12 (bookworm)",
            "6.1.0-18-amd64",
            {"room": "2"},
        ),
        phase=Phase.SETTLED,
        health=replace(HEALTHY, gpus=(gpu(number, 0), gpu(number, 1))),
        is_self=number == 1,
    )
    return replace(view, **changes)  # type: ignore[arg-type]


def sample_view() -> View:
    """Return the fleet: ready, degraded, failed, cordoned, and one without a driver."""
    lost = gpu(2, 1, verdict=Verdict.UNHEALTHY, findings=(LOST, XID))
    degraded = replace(
        HEALTHY, gpus=(gpu(2, 0), replace(lost, index=None, memory_free_bytes=None, is_busy=None))
    )
    hosts = (
        host(1, evidence_age_s=0.0),
        host(2, HostState.DEGRADED, LOST.reason, health=degraded),
        host(
            3,
            HostState.FAILED,
            "no answer to pc01 and 2 others for 31 s",
            reachability=Reachability.FAILED,
            evidence_age_s=45.0,
        ),
        host(
            4,
            HostState.CORDONED,
            "cordoned: new fans",
            admission=Admission.CORDONED,
            admission_reason="new fans",
            transport="stream",
        ),
        host(5, HostState.UNHEALTHY, NO_DRIVER.reason, health=HealthReport(Verdict.UNHEALTHY, (NO_DRIVER,))),
    )
    return View(SELF_ID, 1000.0, "cafe", hosts)


def device(card: int) -> DeviceState:
    info = DeviceInfo(
        card,
        uuid_of(1, card),
        "NVIDIA GeForce RTX 4080 SUPER",
        f"00000000:0{card + 1}:00.0",
        minor=card,
        capability="8.9",
        memory_total_bytes=16 * GIB,
    )
    reading = Reading(
        temperature_c=46 + card,
        fan_percent=0,
        power_w=12.5,
        power_limit_w=320.0,
        energy_mj=123456789,
        utilization_gpu_percent=3,
        utilization_memory_percent=1,
        memory_used_bytes=300 << 20,
        memory_free_bytes=16 * GIB - (700 << 20),
        memory_reserved_bytes=400 << 20,
        sm_clock_mhz=210,
        memory_clock_mhz=405,
        performance_state=8,
        clocks_event_reasons=1,
        pcie_gen=1,
        pcie_width=16,
        pcie_replays=0,
        processes=(Process(4242, "graphics", None, "Xorg"),),
    )
    return DeviceState(card, info, reading)


def sample_probe() -> Probe:
    """Return a healthy look at pc01's two cards."""
    driver = DriverInfo("550.54.14", "12.550.54.14", "12.4")
    return Probe(driver, (device(0), device(1)), num_devices=2, duration_s=0.042)


def resting_probe() -> Probe:
    """Return a look at which pc01's first card sleeps; it was last read three minutes ago."""
    probe = sample_probe()
    first, second = probe.devices
    asleep = replace(
        first, reading=None, is_resting=True, last_reading=first.reading, last_read_unix=NOW - 180
    )
    return replace(probe, devices=(asleep, second))


@dataclass
class SampleSource:
    """A StatusSource whose values tests set."""

    shown: View = field(default_factory=sample_view)
    probe: Probe | None = field(default_factory=sample_probe)
    feed: EventFeed = field(default_factory=lambda: EventFeed(run=7))
    ready: tuple[bool, str] = (True, "")
    silenced: Sequence[Silence] = ()
    internals: Mapping[str, float] = field(
        default_factory=lambda: {"beat": 42, "drops/replay": 3, "sent/ping": 10, "members": 5}
    )

    def view(self) -> View:
        return self.shown

    def readings(self) -> Probe | None:
        return self.probe

    def identity(self) -> Identity:
        return Identity(SELF_ID, "pc01", 7, BOOT_ID)

    def counters(self) -> Mapping[str, float]:
        return self.internals

    def events(self) -> EventFeed:
        return self.feed

    def silences(self) -> Sequence[Silence]:
        return self.silenced

    def is_ready(self) -> tuple[bool, str]:
        return self.ready
