"""Simulated GPUs: what a host's health layer would conclude about cards that are there, or lost."""

from __future__ import annotations

from collections.abc import Collection

from gpumesh.model import Action, Finding, Gpu, HealthReport, Severity, Verdict

MEMORY_BYTES = 16 << 30


def uuid_of(host: str, index: int) -> str:
    """Return the UUID of a host's simulated card."""
    return f"GPU-sim-{host}-{index}"


def report_of(host: str, num_gpus: int, lost: Collection[int] = ()) -> HealthReport:
    """Return the report of a host with ``num_gpus`` cards, of which those indexed by ``lost`` are gone."""
    return HealthReport(
        verdict=Verdict.HEALTHY,
        gpus=tuple(_gpu(host, index, is_lost=index in lost) for index in range(num_gpus)),
        driver_version="550.54.14",
        cuda_version="12.4",
    )


def _gpu(host: str, index: int, *, is_lost: bool) -> Gpu:
    uuid = uuid_of(host, index)
    findings = (
        Finding(
            check="inventory",
            subject=f"gpu/{uuid}",
            severity=Severity.CRITICAL,
            reason="the driver cannot reach this card any more",
            action=Action.REBOOT,
        ),
    )
    return Gpu(
        uuid=uuid,
        index=None if is_lost else index,
        model="Simulated GPU",
        memory_bytes=MEMORY_BYTES,
        memory_free_bytes=None if is_lost else MEMORY_BYTES,
        capability="8.9",
        pci_bus_id=f"00000000:{index + 1:02X}:00.0",
        is_busy=None if is_lost else False,
        verdict=Verdict.UNHEALTHY if is_lost else Verdict.HEALTHY,
        findings=findings if is_lost else (),
    )
