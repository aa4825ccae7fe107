"""Conditions of the access baseline that are no version: each as an item with expected, found and advice.

A condition that does not apply (Docker on a host without Docker) gives no item. One that cannot be read gives
one whose ``found`` is None: unknown, which an enforced baseline does not take for met.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpumesh.health.containers import Containers
from gpumesh.health.devices import DeviceState
from gpumesh.health.hostprobe import HostProbe
from gpumesh.health.inventory import KnownCard
from gpumesh.model import BaselineItem

_MAX_NAMED: Final = 3
CLOCK_OFFSET_S: Final = 1.0
"""Wall clocks further apart than this make logs of two hosts hard to read together."""
CLOCK_PEERS: Final = 2
"""With a single peer nobody knows whose clock is wrong."""
CDI_COMMAND: Final = "run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"
_RUNTIME_ADVICE: Final = {
    "docker": "run `nvidia-ctk runtime configure --runtime=docker`, then restart docker",
    "containerd": "run `nvidia-ctk runtime configure --runtime=containerd`, then restart containerd",
    "podman": CDI_COMMAND,
}


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the conditions are judged by."""

    host: HostProbe
    cards: Sequence[KnownCard]
    """All known cards, also those that are lost."""
    seen: Mapping[str, DeviceState]
    """Cards that the driver reaches, by UUID."""


def judge(name: str, now: Circumstances) -> BaselineItem | None:
    """Return the item for one condition (a name of :data:`CONDITIONS`); None where it does not apply."""
    return CONDITIONS[name](now)


def _nouveau(now: Circumstances) -> BaselineItem:
    is_loaded = now.host.is_nouveau_loaded
    found = None if is_loaded is None else "loaded" if is_loaded else "not loaded"
    advice = "blacklist nouveau, rebuild the initramfs, reboot"
    return _item(
        "nouveau", "not loaded", found, is_met=None if is_loaded is None else not is_loaded, do=advice
    )


def _clock(now: Circumstances) -> BaselineItem:
    is_met = now.host.is_clock_synchronised
    found = None if is_met is None else "synchronised" if is_met else "not synchronised"
    offset_s = now.host.clock_offset_s
    if offset_s is not None and abs(offset_s) > CLOCK_OFFSET_S and now.host.num_clock_peers >= CLOCK_PEERS:
        way = "behind" if offset_s > 0 else "ahead of"
        found = f"{found or 'unknown'}, {abs(offset_s):.1f} s {way} {now.host.num_clock_peers} peers"
        is_met = False
    advice = "run a time service: `systemctl enable --now systemd-timesyncd`, or chrony"
    return _item("clock", "synchronised", found, is_met=is_met, do=advice)


def _persistence(now: Circumstances) -> BaselineItem:
    told = {
        state.index: state.reading.persistence
        for state in now.seen.values()
        if state.reading is not None and state.reading.persistence is not None
    }
    off = sorted(index for index, is_on in told.items() if not is_on)
    found = None if not told else f"off on {_listed('GPU', off)}" if off else "on"
    advice = "run `systemctl enable --now nvidia-persistenced`"
    return _item("persistence", "on", found, is_met=None if not told else not off, do=advice)


def _runtime(name: str) -> Callable[[Circumstances], BaselineItem | None]:
    def judge_runtime(now: Circumstances) -> BaselineItem | None:
        containers = now.host.containers
        way = next((item.way for item in _known(containers).runtimes if item.name == name), "absent")
        if way == "absent":
            return None
        found = None if way is None else way or "not set up for NVIDIA"
        is_met = None if way is None else bool(way)
        return _item(name, "nvidia runtime or CDI", found, is_met=is_met, do=_RUNTIME_ADVICE[name])

    return judge_runtime


def _cdi(now: Circumstances) -> BaselineItem | None:
    """Judge the specifications where something uses them: CDI names cards that may have changed since."""
    containers = _known(now.host.containers)
    devices = containers.cdi_devices
    is_used = any(item.name == "podman" or item.way == "CDI" for item in containers.runtimes)
    if not is_used and not devices:
        return None
    if devices is None:
        return _item("cdi", "a device for each card", None, is_met=None, do=CDI_COMMAND)
    wrong = _cdi_fault(devices, now) if devices else "no nvidia.com/gpu device"
    found = wrong or _listed("device", devices)
    return _item("cdi", "a device for each card", found, is_met=not wrong, do=CDI_COMMAND)


def _cdi_fault(devices: Sequence[str], now: Circumstances) -> str:
    names = set(devices)
    known = {card.uuid: card.index for card in now.cards}
    missing = [
        index
        for uuid, index in known.items()
        if uuid in now.seen and not names & {uuid, str(index), f"gpu{index}"}
    ]
    if missing:
        return f"no device for {_listed('GPU', sorted(missing))}"
    indexes = {str(index) for index in known.values()}
    gone = [
        name
        for name in devices
        if (name.startswith("GPU-") and name not in known) or (name.isdecimal() and name not in indexes)
    ]
    return f"names a card that is not here: {gone[0][:40]}" if gone and known else ""


CONDITIONS: Final[Mapping[str, Callable[[Circumstances], BaselineItem | None]]] = {
    "nouveau": _nouveau,
    "clock": _clock,
    "persistence": _persistence,
    "docker": _runtime("docker"),
    "podman": _runtime("podman"),
    "containerd": _runtime("containerd"),
    "cdi": _cdi,
}
"""What ``[host] require`` of a baseline file may name, in the order in which it is shown."""


def _known(containers: Containers | None) -> Containers:
    return Containers() if containers is None else containers


def _item(name: str, expected: str, found: str | None, *, is_met: bool | None, do: str) -> BaselineItem:
    return BaselineItem(name, expected, found, is_met, "" if is_met else do)


def _listed(noun: str, items: Sequence[object]) -> str:
    shown = ", ".join(str(item) for item in items[:_MAX_NAMED])
    return f"{noun} {shown}" + (f" and {len(items) - _MAX_NAMED} more" if len(items) > _MAX_NAMED else "")
