"""``/metrics``: the cards under dcgm-exporter's names, the mesh under ``gpumesh_*``, and the process."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import gpumesh
from gpumesh.health.devices import Probe
from gpumesh.model import Finding, HostState, HostView, View
from gpumesh.status.dcgm import dcgm_families
from gpumesh.status.exposition import Family, render
from gpumesh.status.source import StatusSource

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

MAX_HOST_SERIES: Final = 512
"""Each host exports all it sees, so a fleet costs the square; beyond this, ready hosts are left out."""
_LABEL_OF: Final = {"drops": "reason"}
_HELP: Final = {
    "beat": "This host's heartbeat number.",
    "clock_offset_seconds": "How far peers' wall clocks are ahead of this host's; absent while unknown.",
    "drops": "Inputs from the network that were refused, by reason.",
    "sent": "Messages sent, by kind.",
    "received": "Messages received, by kind.",
    "datagrams_sent_total": "Datagrams sent.",
    "datagrams_received_total": "Datagrams received.",
    "absurd_values_total": "Values of GPUs that looks left out because no card can mean them.",
    "xids_dropped_total": "Xids that had no room in the bounded table of them.",
    "kernel_log_lost_total": "Records that the kernel overwrote before they were read.",
}
_NOT_IN_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")


def exposition(source: StatusSource) -> bytes:
    """Return ``/metrics`` as of now, in the text format."""
    mesh = mesh_exposition(source.view(), source.readings(), source.counters())
    return mesh.encode(errors="replace") + _process_exposition()


@functools.cache
def _process_registry() -> tuple[Callable[[CollectorRegistry], bytes], CollectorRegistry]:
    """Return prometheus-client's renderer and a registry of our own for what it knows of this process.

    Imported with the first scrape: a daemon that nobody scrapes does without its 10 MB.
    """
    from prometheus_client import (  # noqa: PLC0415
        CollectorRegistry,
        PlatformCollector,
        ProcessCollector,
        generate_latest,
    )

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return generate_latest, registry


def _process_exposition() -> bytes:
    render_registry, registry = _process_registry()
    return render_registry(registry)


def mesh_exposition(view: View, probe: Probe | None, counters: Mapping[str, float]) -> str:
    """Return everything but the process's own metrics; the same values give the same text."""
    me = view.me
    return render(
        [
            *dcgm_families(probe, me.health, me.name),
            _build_info(),
            *_host_families(view),
            *_gpu_families(me),
            *_probe_families(probe),
            _absurd_family(probe),
            _engine_family(probe),
            *_rest_families(probe),
            *_xid_families(probe),
            *_counter_families(counters),
        ]
    )


def _build_info() -> Family:
    family = Family("gpumesh_build_info", "gauge", "The version that runs, in a label.")
    family.add(1, (("version", gpumesh.__version__),))
    return family


def _host_families(view: View) -> Iterable[Family]:
    state = Family("gpumesh_host_state", "gauge", "1 for the state that this host sees each host in.")
    for host in _bounded(view.hosts):
        state.add(1, (("host", host.name), ("host_id", host.host_id), ("state", str(host.state))))
    fleet = Family("gpumesh_fleet_hosts", "gauge", "Hosts in each state, as this host sees them.")
    for word in HostState:
        fleet.add(sum(host.state is word for host in view.hosts), (("state", str(word)),))
    ready = Family("gpumesh_ready", "gauge", "1 if this host sees itself ready for new work, else 0.")
    ready.add(view.me.state is HostState.READY)
    braked = Family(
        "gpumesh_mass_failure", "gauge", "1 while so many hosts fail that this host doubts itself."
    )
    braked.add(view.mass_failure)
    return state, fleet, ready, braked


def _bounded(hosts: tuple[HostView, ...]) -> list[HostView]:
    if len(hosts) <= MAX_HOST_SERIES:
        return list(hosts)
    telling = [host for host in hosts if host.is_self or host.state is not HostState.READY]
    telling.sort(key=lambda host: not host.is_self)
    return telling[:MAX_HOST_SERIES]


def _gpu_families(me: HostView) -> Iterable[Family]:
    verdict = Family("gpumesh_gpu_verdict", "gauge", "1 for the verdict on each of this host's GPUs.")
    finding = Family("gpumesh_finding", "gauge", "1 for each finding that stands on this host and counts.")
    if me.health is None:
        return ()
    for gpu in me.health.gpus:
        verdict.add(1, (("UUID", gpu.uuid), ("verdict", str(gpu.verdict))))
    standing = [*me.health.findings, *(item for gpu in me.health.gpus for item in gpu.findings)]
    silenced = Family("gpumesh_finding_silenced", "gauge", "1 for each finding that an operator silenced.")
    for family, is_silenced in ((finding, False), (silenced, True)):
        shown = (item for item in standing if (item.silenced_until is not None) is is_silenced)
        for labels in dict.fromkeys(_finding_labels(item) for item in shown):
            family.add(1, labels)
    return verdict, finding, silenced


def _finding_labels(finding: Finding) -> tuple[tuple[str, str], ...]:
    return (("check", finding.check), ("subject", finding.subject), ("severity", str(finding.severity)))


def _probe_families(probe: Probe | None) -> Iterable[Family]:
    duration = Family("gpumesh_probe_duration_seconds", "gauge", "How long the last look at the cards took.")
    hung = Family("gpumesh_probe_hung", "gauge", "1 while the driver does not answer, else 0.")
    errors = Family("gpumesh_probe_failed_devices", "gauge", "Cards that could not be read in the last look.")
    if probe is None:
        return ()
    hung.add(probe.is_hung)
    if not probe.is_hung:
        duration.add(probe.duration_s)
        errors.add(sum(bool(device.error) or device.is_lost for device in probe.devices))
    return duration, hung, errors


def _absurd_family(probe: Probe | None) -> Family:
    """Count what the last look left out because no card can mean it."""
    family = Family(
        "gpumesh_gpu_absurd_values", "gauge", "Values that the last look at a GPU left out as absurd."
    )
    for device in probe.devices if probe and not probe.is_hung else ():
        if device.info is not None and device.reading is not None:
            family.add(device.num_dropped, (("UUID", device.info.uuid),))
    return family


def _rest_families(probe: Probe | None) -> Iterable[Family]:
    """Tell which cards are let sleep, and when they were read last: their series are absent meanwhile."""
    resting = Family("gpumesh_gpu_resting", "gauge", "1 while a GPU is let sleep and not read, else 0.")
    last = Family(
        "gpumesh_gpu_last_read_timestamp_seconds", "gauge", "When a GPU that rests was read last, Unix time."
    )
    for device in probe.devices if probe else ():
        if device.info is not None:
            labels = (("UUID", device.info.uuid),)
            resting.add(device.is_resting, labels)
            last.add(device.last_read_unix, labels)
    return resting, last


def _engine_family(probe: Probe | None) -> Family:
    """Show the engines for which dcgm-exporter has no name."""
    family = Family(
        "gpumesh_gpu_engine_utilization_percent",
        "gauge",
        "How busy JPEG and optical flow engines are.",
    )
    is_told = probe is not None and probe.driver is not None and not probe.is_hung
    for device in probe.devices if probe and is_told else ():
        if device.info is None or device.reading is None or device.is_lost:
            continue
        for engine in ("jpeg", "ofa"):
            percent: int | None = getattr(device.reading, f"utilization_{engine}_percent")
            family.add(percent, (("UUID", device.info.uuid), ("engine", engine)))
    return family


def _xid_families(probe: Probe | None) -> Iterable[Family]:
    """Count and date each Xid: a gauge alone hides repeats and never clears (dcgm-exporter#500, #190)."""
    total = Family("gpumesh_xid_total", "counter", "How often each Xid was seen on a card since boot.")
    last = Family("gpumesh_xid_last_timestamp_seconds", "gauge", "When each Xid was seen last, Unix time.")
    falls = Family(
        "gpumesh_off_the_bus_total", "counter", "Falls off the bus that the kernel told of without an Xid."
    )
    for item in probe.xids if probe else ():
        labels = (("UUID", item.uuid), ("pci_bus_id", item.pci_bus_id))
        if item.xid is None:
            falls.add(item.num_seen, labels)
        else:
            total.add(item.num_seen, (*labels, ("xid", str(item.xid))))
            last.add(item.last_unix, (*labels, ("xid", str(item.xid))))
    return total, last, falls


def _help_of(name: str) -> str:
    kind, _, store = name.partition("_")
    words = store.replace("_", " ")
    if kind == "size":
        return f"Present entries of the daemon's {words}."
    if kind == "limit":
        return f"Most entries that the daemon's {words} may have."
    return f"The daemon's own {name.replace('_', ' ')}."


def _counter_families(counters: Mapping[str, float]) -> Iterable[Family]:
    families: dict[str, Family] = {}
    for key in sorted(counters):
        name, _, label = key.partition("/")
        is_counter = bool(label) or name.endswith("_total")
        metric = "gpumesh_" + _NOT_IN_A_NAME.sub("_", name) + ("_total" if label else "")
        if metric not in families:
            text = _HELP.get(name, _help_of(name))
            families[metric] = Family(metric, "counter" if is_counter else "gauge", text)
        families[metric].add(counters[key], ((_LABEL_OF.get(name, "kind"), label),) if label else ())
    return families.values()
