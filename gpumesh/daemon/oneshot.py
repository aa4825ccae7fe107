"""One look at this host without the daemon: same prober, same checks, nothing kept and nobody told.

For ``gpumesh check`` and ``gpumesh baseline`` where no daemon answers. The state directory is read only: the
inventory in it tells of lost cards. What needs time to stand (temperature, throttling, replays) cannot be
seen in one look; hard facts can.
"""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gpumesh.config import Config
from gpumesh.daemon.clock import boot_time, unix_offset
from gpumesh.daemon.hostprobe import HostProber
from gpumesh.daemon.identity import read_boot_id
from gpumesh.daemon.kmsg import KernelLog
from gpumesh.daemon.leftovers import hung_behind, surely_stuck
from gpumesh.daemon.prober import Prober
from gpumesh.health.devices import Probe
from gpumesh.health.engine import Health
from gpumesh.health.hostprobe import HostProbe
from gpumesh.health.inventory import Inventory
from gpumesh.health.xids import settled_from_json
from gpumesh.lease.condition import condition
from gpumesh.model import HealthReport
from gpumesh.status.documents import (
    baseline_document,
    devices_by_uuid,
    finding_document,
    gpu_document,
    probe_document,
    reading_document,
)

Document = dict[str, Any]
KERNEL_LOG_READS: Final = 16
_MAX_BYTES: Final = 4 << 20


def look_once(config: Config, root: Path = Path("/")) -> Document:
    """Return this host's health as ``/v1/status`` shows it, as far as one look can tell.

    ``notes`` says what could not be taken into account. Errors: ConfigError for a wrong baseline file or an
    unknown simulated profile.
    """
    return asyncio.run(_look(config, root))


async def _look(config: Config, root: Path) -> Document:
    state_dir = Path(config.host.state_dir)
    notes: list[str] = []
    inventory = _read(state_dir / "inventory.json", notes, "a card lost since cannot be missed")
    xids = _read(state_dir / "xids.json", notes, "an Xid that a card has recovered from counts again")
    health = Health(
        config,
        inventory=None if inventory is None else Inventory.from_json(inventory),
        settled_xids=settled_from_json(xids, read_boot_id(root)),
    )
    identity = _read(state_dir / "identity.json", notes, "") if config.gpu.simulated else None
    host_id = str((identity or {}).get("host_id") or config.host.name or socket.gethostname())
    probe, host = await asyncio.gather(
        _probe(config, root, state_dir, host_id), HostProber(root).probe(boot_time())
    )
    now = boot_time()
    host = _with_kernel_lines(host, root, now)
    report = health.handle_probe(probe, host, now, now + unix_offset())
    return _document(config, probe, host, report, notes)


async def _probe(config: Config, root: Path, state_dir: Path, host_id: str) -> Probe:
    stuck = await surely_stuck(root, state_dir)
    if stuck:
        return hung_behind(stuck, boot_time())
    prober = Prober(config.gpu, host=host_id, root=root)
    try:
        return await prober.probe()
    finally:
        await prober.close()


def _with_kernel_lines(host: HostProbe, root: Path, now: float) -> HostProbe:
    """Add the driver's lines since boot, as far as a bounded number of reads gets."""
    log = KernelLog(root)
    try:
        reads = [log.read_new(now) for _ in range(KERNEL_LOG_READS)]
    finally:
        log.close()
    lines = tuple(line for read in reads for line in read.lines)
    return replace(host, kernel_lines=lines, kernel_log_error=reads[-1].error)


def _read(path: Path, notes: list[str], loses: str) -> Document | None:
    """Return a kept document without touching it, or None; what that costs goes to ``notes``."""
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(_MAX_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        if loses:
            notes.append(f"{path}: {error.strerror}: {loses}")
        return None
    except (ValueError, RecursionError):
        # Not a document: the engine says so of its inventory.
        return {}
    return document if isinstance(document, dict) else {}


def _document(
    config: Config, probe: Probe, host: HostProbe, report: HealthReport, notes: list[str]
) -> Document:
    devices = devices_by_uuid(probe)
    gpus = [gpu_document(gpu) for gpu in report.gpus]
    for gpu in gpus:
        device = devices.get(gpu["uuid"])
        gpu["reading"] = reading_document(device.reading) if device and device.reading else None
    state, reason = condition(report)
    return {
        "name": config.host.name or socket.gethostname().split(".", 1)[0],
        "state": str(state),
        "reason": reason,
        "verdict": str(report.verdict),
        "driver_version": report.driver_version,
        "cuda_version": report.cuda_version,
        "kernel": host.kernel,
        "os": host.os,
        "gpus": gpus,
        "findings": [finding_document(finding) for finding in report.findings],
        "baseline": baseline_document(report.baseline),
        "probe": probe_document(probe),
        "notes": notes,
    }
