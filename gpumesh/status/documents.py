"""Values of the model as JSON documents: the field names here are the durable outside names.

Sizes are bytes, durations seconds, instants ISO 8601 in UTC. What is not known is null, or absent inside
``reading``; a number that JSON cannot hold (NaN, infinity) is null too.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime, timezone
from typing import Any

from gpumesh.health.devices import DeviceInfo, DeviceState, Probe, Process, Reading
from gpumesh.health.silences import Silence
from gpumesh.model import (
    Baseline,
    Candidate,
    Decision,
    Finding,
    Gpu,
    HealthReport,
    HostState,
    HostView,
    Scalar,
    Verdict,
    View,
)
from gpumesh.status.feed import NumberedEvent
from gpumesh.status.instances import instance_document, instance_documents
from gpumesh.status.outliers import outliers

Document = dict[str, Any]
_NESTED = frozenset({"processes", "nvlinks", "mig_instances"})
_ON_THE_CARD = frozenset({"index", "uuid", "name", "pci_bus_id", "capability"})
"""Shown with the card itself."""
_UNSEEN = HealthReport(Verdict.UNKNOWN)


def encode(document: Document) -> bytes:
    """Return the document as UTF-8 JSON with a final newline; NaN and infinity cannot pass."""
    return json.dumps(document, allow_nan=False, ensure_ascii=False).encode(errors="replace") + b"\n"


def instant(unix: float) -> str | None:
    """Return ``2026-11-30T06:00:00.000Z`` for Unix seconds; None for an instant that is not known."""
    if not math.isfinite(unix) or unix <= 0:
        return None
    try:
        moment = datetime.fromtimestamp(unix, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def scalar(value: Scalar) -> Scalar:
    """Return the value, or None for a float that JSON cannot hold."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def finding_document(finding: Finding) -> Document:
    """Return one finding."""
    return {
        "check": finding.check,
        "subject": finding.subject,
        "severity": str(finding.severity),
        "reason": finding.reason,
        "action": str(finding.action),
        "advice": finding.advice,
        "evidence": {key: scalar(value) for key, value in finding.evidence.items()},
        "since": instant(finding.since),
        "silenced_until": None if finding.silenced_until is None else instant(finding.silenced_until),
    }


def silence_document(silence: Silence) -> Document:
    """Return one silence; an empty subject is every one of this host."""
    return {
        "check": silence.check,
        "subject": silence.subject,
        "until": instant(silence.until),
        "reason": silence.reason,
    }


def gpu_document(gpu: Gpu, device: DeviceState | None = None) -> Document:
    """Return one card as the fleet knows it; ``device`` is what this host read of it, if it is its own."""
    return {
        "uuid": gpu.uuid,
        "index": gpu.index,
        "model": gpu.model,
        "memory_bytes": gpu.memory_bytes,
        "memory_free_bytes": gpu.memory_free_bytes,
        "capability": gpu.capability,
        "pci_bus_id": gpu.pci_bus_id,
        "busy": gpu.is_busy,
        "verdict": str(gpu.verdict),
        "mig_instances": instance_documents(device),
        "findings": [finding_document(finding) for finding in gpu.findings],
    }


def baseline_document(baseline: Baseline | None) -> Document | None:
    """Return the outcome of the baseline; None if it was not held against this host."""
    if baseline is None:
        return None
    return {
        "mode": baseline.mode,
        "source": baseline.source,
        "items": [
            {
                "name": item.name,
                "expected": item.expected,
                "found": item.found,
                "met": item.is_met,
                "advice": item.advice,
            }
            for item in baseline.items
        ],
    }


def host_document(host: HostView, probe: Probe | None = None) -> Document:
    """Return one host as this host sees it; ``probe`` is this host's own look at its cards."""
    health, facts = host.health or _UNSEEN, host.facts
    return {
        "host_id": host.host_id,
        "name": host.name,
        "self": host.is_self,
        "state": str(host.state),
        "reason": host.reason,
        "since": instant(host.state_since),
        "reachability": str(host.reachability),
        "isolated": host.is_isolated,
        "admission": str(host.admission),
        "admission_reason": host.admission_reason,
        "phase": str(host.phase),
        "verdict": str(health.verdict),
        "address": str(host.address),
        "transport": host.transport,
        "evidence_age_s": None if host.evidence_age_s is None else _rounded(host.evidence_age_s),
        "epoch": host.epoch,
        "incarnation": host.incarnation,
        "boot_id": facts.boot_id if facts else None,
        "version": facts.version if facts else None,
        "os": facts.os if facts else None,
        "kernel": facts.kernel if facts else None,
        "http": facts.http if facts else None,
        "labels": dict(facts.labels) if facts else {},
        "driver_version": health.driver_version,
        "cuda_version": health.cuda_version,
        "gpus": _gpu_documents(host, probe),
        "findings": [finding_document(finding) for finding in health.findings],
        "baseline": baseline_document(health.baseline),
    }


def _gpu_documents(host: HostView, probe: Probe | None) -> list[Document]:
    devices = devices_by_uuid(probe if host.is_self else None)
    return [gpu_document(gpu, devices.get(gpu.uuid)) for gpu in (host.health or _UNSEEN).gpus]


def fleet_document(view: View, probe: Probe | None = None) -> Document:
    """Return the fleet with all its hosts."""
    return {
        "fleet": view.fleet,
        "self_id": view.self_id,
        "mass_failure": view.mass_failure,
        "num_hosts": len(view.hosts),
        "num_gpus": sum(len(host.health.gpus) for host in view.hosts if host.health),
        "states": state_counts(view.hosts),
        "outliers": outliers(view),
        "hosts": [host_document(host, probe) for host in view.hosts],
    }


def state_counts(hosts: Iterable[HostView]) -> dict[str, int]:
    """Return how many hosts are in each state that occurs, worst state first."""
    counts = Counter(host.state for host in hosts)
    return {str(state): counts[state] for state in HostState if counts[state]}


def gpus_document(view: View, probe: Probe | None = None) -> Document:
    """Return every card of the fleet with the host that it is in."""
    return {
        "fleet": view.fleet,
        "gpus": [
            {"host_id": host.host_id, "host": host.name, "host_state": str(host.state), **gpu}
            for host in view.hosts
            for gpu in _gpu_documents(host, probe)
        ],
    }


def device_document(info: DeviceInfo) -> Document:
    """Return what does not change about a card; what the card cannot say is absent."""
    document = {item.name: getattr(info, item.name) for item in fields(info)}
    return {
        name: content
        for name, content in document.items()
        if content is not None and name not in _ON_THE_CARD
    }


def reading_document(reading: Reading) -> Document:
    """Return one look at a card; what the card cannot say is absent."""
    document: Document = {}
    for item in fields(reading):
        value = getattr(reading, item.name)
        if item.name not in _NESTED and value is not None and scalar(value) is not None:
            document[item.name] = value
    if reading.nvlinks is not None:
        document["nvlinks"] = list(reading.nvlinks)
    if reading.mig_instances is not None:
        document["mig_instances"] = [instance_document(item) for item in reading.mig_instances]
    if reading.processes is not None:
        document["processes"] = [_process_document(process) for process in reading.processes]
    return document


def _process_document(process: Process) -> Document:
    document: Document = {
        "pid": process.pid,
        "kind": process.kind,
        "name": process.name,
        "user": process.user,
        "state": process.state,
        "memory_bytes": process.memory_bytes,
    }
    if process.gpu_instance is not None:
        document["gpu_instance"] = process.gpu_instance
        document["compute_instance"] = process.compute_instance
    return document


def probe_document(probe: Probe | None) -> Document | None:
    """Return how the latest look at the driver went; None before the first."""
    if probe is None:
        return None
    return {
        "driver_version": probe.driver.driver_version if probe.driver else None,
        "library_version": probe.driver.library_version if probe.driver else None,
        "cuda_version": probe.driver.cuda_version if probe.driver else None,
        "backend": probe.driver.backend if probe.driver else None,
        "num_devices": probe.num_devices,
        "error": probe.error,
        "error_code": probe.error_code,
        "hung": probe.is_hung,
        "hung_call": probe.call if probe.is_hung else "",
        "hung_for_s": _rounded(probe.hung_for_s),
        "duration_s": _rounded(probe.duration_s),
        "failed_devices": [
            {
                "index": device.index,
                "error": device.error,
                "error_code": device.error_code,
                "lost": device.is_lost,
            }
            for device in probe.devices
            if device.error or device.is_lost
        ],
        "absurd_values": [
            {
                "index": device.index,
                "uuid": device.info.uuid if device.info else None,
                "count": device.num_dropped,
            }
            for device in probe.devices
            if device.num_dropped
        ],
        "xids": [
            {
                "uuid": item.uuid or None,
                "pci_bus_id": item.pci_bus_id,
                "xid": item.xid,
                "count": item.num_seen,
                "last": instant(item.last_unix),
                "settled": item.is_settled,
            }
            for item in probe.xids
        ],
    }


def devices_by_uuid(probe: Probe | None) -> Mapping[str, DeviceState]:
    """Return the probe's cards by UUID, those left out whose identity could not be read."""
    return {device.info.uuid: device for device in probe.devices if device.info} if probe else {}


def status_document(view: View, probe: Probe | None) -> Document:
    """Return this host in full: its host document, each card with its raw reading, and the last probe."""
    document = host_document(view.me, probe)
    devices = devices_by_uuid(probe)
    for gpu in document["gpus"]:
        device = devices.get(gpu["uuid"])
        gpu["resting"] = device.is_resting if device else None
        gpu["device"] = device_document(device.info) if device and device.info else None
        gpu["reading"] = reading_document(device.reading) if device and device.reading else None
        last = device.last_reading if device and device.is_resting else None
        gpu["last_reading"] = reading_document(last) if last else None
        gpu["last_read"] = instant(device.last_read_unix or 0.0) if device and last else None
    document["probe"] = probe_document(probe)
    document["fleet"] = view.fleet
    document["mass_failure"] = view.mass_failure
    document["num_peers"] = len(view.hosts) - 1
    document["peer_states"] = state_counts(host for host in view.hosts if not host.is_self)
    return document


def _candidate_document(candidate: Candidate, view: View) -> Document:
    host = view.host(candidate.host_id)
    cards = {gpu.uuid: gpu for gpu in host.health.gpus} if host and host.health else {}
    return {
        "host_id": candidate.host_id,
        "host": candidate.name,
        "rank": candidate.rank,
        "gpus": [
            {"uuid": uuid, "index": cards[uuid].index, "model": cards[uuid].model}
            if uuid in cards
            else {"uuid": uuid, "index": None, "model": None}
            for uuid in candidate.gpus
        ],
    }


def decision_document(decision: Decision, view: View) -> Document:
    """Return where a request should run, the order to try, and why not elsewhere."""
    request = decision.request
    return {
        "request": {
            "key": request.key,
            "gpus": request.num_gpus,
            "memory_bytes": request.memory_bytes,
            "model": request.model,
            "capability": request.capability,
            "driver": request.driver,
            "cuda": request.cuda,
            "labels": dict(request.labels),
            "avoid": list(request.anti_affinity),
            "allow_degraded": request.allow_degraded,
        },
        "chosen": _candidate_document(decision.chosen, view) if decision.chosen else None,
        "reason": decision.reason,
        "ranking": [_candidate_document(candidate, view) for candidate in decision.ranking],
        "rejections": [
            {"host_id": item.host_id, "host": item.name, "code": item.code, "reason": item.reason}
            for item in decision.rejections
        ],
    }


def event_document(numbered: NumberedEvent) -> Document:
    """Return one event."""
    event = numbered.event
    return {
        "id": numbered.id,
        "kind": event.kind,
        "time": instant(event.time),
        "host_id": event.host_id,
        "host": event.host,
        "subject": event.subject,
        "reason": event.reason,
        "fields": {key: scalar(value) for key, value in event.fields.items()},
    }


def _rounded(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None
