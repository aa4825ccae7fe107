"""What a host's health means for work: fit, degraded or unhealthy, with the reason in words.

A host verdict that is unknown, a host without a driver and a host without a GPU are unhealthy: none of them
can run GPU work, and unknown is never healthy.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpumesh.model import Baseline, Finding, Gpu, HealthReport, HostState, Severity, Verdict

_BAD = (Verdict.UNHEALTHY, Verdict.UNKNOWN)
_WORST_FIRST = (Severity.CRITICAL, Severity.WARNING)


def condition(health: HealthReport) -> tuple[HostState, str]:
    """Return ``ready``, ``degraded`` or ``unhealthy`` for a host in this health, and why."""
    unhealthy = _why_unhealthy(health)
    if unhealthy:
        return HostState.UNHEALTHY, unhealthy
    degraded = _why_degraded(health)
    if degraded:
        return HostState.DEGRADED, degraded
    return HostState.READY, ""


def is_released(health: HealthReport) -> bool:
    """Tell whether its cards are unknown only because the driver was let go of, as on a drained host.

    The cards' own findings say so to peers too, where a long list of the host's is cut.
    """
    return (
        health.verdict not in _BAD
        and all(gpu.verdict is Verdict.UNKNOWN for gpu in health.gpus)
        and (
            _says_released(health.findings)
            or (bool(health.gpus) and all(_says_released(gpu.findings) for gpu in health.gpus))
        )
    )


def _says_released(findings: Iterable[Finding]) -> bool:
    return any(
        finding.check == "driver" and finding.evidence.get("code") == "released" for finding in findings
    )


def _why_unhealthy(health: HealthReport) -> str:
    if health.verdict is Verdict.UNHEALTHY:
        return _worst(health.findings) or "its own checks call it unhealthy"
    if health.verdict is Verdict.UNKNOWN:
        return _worst(health.findings) or "its health is not known; unknown is not taken for healthy"
    if not health.gpus and health.driver_version is None:
        return _worst(health.findings) or "no GPU driver answers on it"
    if not health.gpus:
        return _worst(health.findings) or "it has no GPU"
    if is_released(health):
        return "its driver was let go of, and its cards are not looked at yet"
    if all(gpu.verdict in _BAD for gpu in health.gpus):
        return f"none of its {_gpus(len(health.gpus))} is fit: {_first_bad(health.gpus)}"
    return "" if _is_baseline_silenced(health.findings) else _off_baseline(health.baseline)


def _why_degraded(health: HealthReport) -> str:
    bad = [gpu for gpu in health.gpus if gpu.verdict is not Verdict.HEALTHY]
    if bad:
        return f"{len(bad)} of {_gpus(len(health.gpus))} not healthy: {_first_bad(bad)}"
    if health.verdict is Verdict.DEGRADED:
        return _worst(health.findings) or "its own checks call it degraded"
    return ""


def _is_baseline_silenced(findings: Iterable[Finding]) -> bool:
    told = [finding for finding in findings if finding.check == "baseline"]
    return bool(told) and all(finding.silenced_until is not None for finding in told)


def _off_baseline(baseline: Baseline | None) -> str:
    """Say what of an enforced baseline is not shown to be met; what could not be read is not met."""
    if baseline is None or baseline.mode != "enforce":
        return ""
    unmet = next((item for item in baseline.items if item.is_met is not True), None)
    if unmet is None:
        return ""
    found = f"is {unmet.found}" if unmet.found else "was not found"
    return f"off its enforced baseline: {unmet.name} {found}, expected {unmet.expected}"


def _first_bad(gpus: Iterable[Gpu]) -> str:
    # The worst verdict first, then the driver's order, so that the sentence does not jump about.
    order = (Verdict.UNHEALTHY, Verdict.UNKNOWN, Verdict.DEGRADED, Verdict.HEALTHY)
    gpu = min(gpus, key=lambda item: (order.index(item.verdict), item.uuid))
    return f"{gpu.uuid}: {_worst(gpu.findings) or gpu.verdict.value}"


def _worst(findings: Iterable[Finding]) -> str:
    known = [finding for finding in findings if finding.silenced_until is None]
    for severity in _WORST_FIRST:
        for finding in known:
            if finding.severity is severity:
                return finding.reason
    return ""


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
