"""The MIG instances of a card as JSON documents."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Any

from gpumesh.health.devices import DeviceState, MigInstance, Reading


def instance_document(instance: MigInstance) -> dict[str, Any]:
    """Return one instance; what it cannot say is absent."""
    document = {item.name: getattr(instance, item.name) for item in fields(instance)}
    return {name: content for name, content in document.items() if content is not None}


def instance_documents(device: DeviceState | None) -> list[dict[str, Any]] | None:
    """Return the instances of a card of this host, each with how many processes run in it.

    None: the card is not carved up, or was not read. The number of processes is None where the driver lists
    none.
    """
    reading = device.reading if device else None
    if reading is None or reading.mig_instances is None:
        return None
    running = _num_processes(reading)
    return [
        {
            **instance_document(item),
            "num_processes": None if running is None else running[item.gpu_instance, item.compute_instance],
        }
        for item in reading.mig_instances
    ]


def _num_processes(reading: Reading) -> Counter[tuple[int | None, int | None]] | None:
    if reading.processes is None:
        return None
    return Counter((process.gpu_instance, process.compute_instance) for process in reading.processes)
