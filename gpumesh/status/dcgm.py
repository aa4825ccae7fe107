"""This host's readings under dcgm-exporter's names, types and labels, so that its dashboards work.

Which there are stands in :mod:`gpumesh.status.dcgm_series`. A value that the card cannot say is left out, and
a card that is lost or failing has none at all but for its Xid (NVIDIA/gpu-monitoring-tools#188): the last
good value of a dead card must not live on.
"""

from __future__ import annotations

from typing import Final

from gpumesh.health.devices import DeviceInfo, Probe, Reading
from gpumesh.model import HealthReport
from gpumesh.status.dcgm_series import INSTANCE_SERIES, SERIES
from gpumesh.status.exposition import Family, Labels

_MIB: Final = 1 << 20
_NUM_CARD_LABELS: Final = 5
"""Labels up to modelName; those of a MIG instance come behind them."""


def dcgm_families(probe: Probe | None, report: HealthReport | None, hostname: str) -> list[Family]:
    """Return the ``DCGM_FI_*`` families of one probe; none while no driver answers."""
    families = [Family(f"DCGM_FI_DEV_{item.name}", item.type, item.help) for item in SERIES]
    activities = [Family(f"DCGM_FI_PROF_{item.name}", "gauge", item.help) for item in INSTANCE_SERIES]
    xids = Family(
        "DCGM_FI_DEV_XID_ERRORS", "gauge", "Last Xid that still matters; gone once the card is well again."
    )
    if probe is None or probe.is_hung or probe.driver is None:
        return []
    driver_version = probe.driver.driver_version or ""
    last_xids = _last_xids(probe, report)
    for device in probe.devices:
        if device.info is None:
            continue
        labels = _device_labels(device.info, hostname, driver_version)
        # A card that is lost has no readings, but why it is lost is what people look for then.
        xids.add(last_xids.get(device.info.uuid), labels)
        if device.reading is None or device.is_lost:
            continue
        # An error beside a reading means that one call failed: only that value is absent.
        for item, family in zip(SERIES, families, strict=True):
            family.add(item.value(device.reading), labels)
        _add_instances(families, activities, device.reading, labels)
    return [*families, *activities, xids]


def _add_instances(
    families: list[Family], activities: list[Family], reading: Reading, labels: Labels
) -> None:
    """Add each MIG instance's memory and activity, told from its card's by dcgm-exporter's two labels."""
    by_name = {family.name: family for family in families}
    # Compute instances of one GPU instance share its memory and counters: they are shown once.
    by_slice = {instance.gpu_instance: instance for instance in reading.mig_instances or ()}
    for instance in by_slice.values():
        mine = (
            *labels[:_NUM_CARD_LABELS],
            ("GPU_I_PROFILE", instance.profile),
            ("GPU_I_ID", str(instance.gpu_instance)),
            *labels[_NUM_CARD_LABELS:],
        )
        used, free = instance.memory_used_bytes, instance.memory_free_bytes
        by_name["DCGM_FI_DEV_FB_USED"].add(None if used is None else used // _MIB, mine)
        by_name["DCGM_FI_DEV_FB_FREE"].add(None if free is None else free // _MIB, mine)
        for item, family in zip(INSTANCE_SERIES, activities, strict=True):
            family.add(item.value(instance), mine)


def _device_labels(info: DeviceInfo, hostname: str, driver_version: str) -> Labels:
    return (
        ("gpu", str(info.index)),
        ("UUID", info.uuid),
        ("pci_bus_id", info.pci_bus_id),
        ("device", f"nvidia{info.index if info.minor is None else info.minor}"),
        ("modelName", info.name),
        ("Hostname", hostname),
        ("DCGM_FI_DRIVER_VERSION", driver_version),
    )


def _last_xids(probe: Probe, report: HealthReport | None) -> dict[str, float]:
    """Return the newest Xid of each card among those that stand as findings, by UUID."""
    seen = {(item.uuid, item.xid): item.last_unix for item in probe.xids}
    newest: dict[str, tuple[float, float]] = {}
    for gpu in report.gpus if report else ():
        for finding in gpu.findings:
            xid = finding.evidence.get("xid")
            if finding.check == "xid" and isinstance(xid, int):
                last = seen.get((gpu.uuid, xid), finding.since), float(xid)
                newest[gpu.uuid] = max(newest.get(gpu.uuid, last), last)
    return {uuid: xid for uuid, (_, xid) in newest.items()}
