"""Does the driver answer at all: absent, hung, failing, or without a card.

The daemon stays up through all of these and asks again; the finding goes when the driver comes
(nvidia_gpu_exporter#65). A hung driver is left alone: nothing is started behind it; that it hangs is
kept on disk, and the daemon's next run tells it from its start until the driver answers. A driver that
refuses, or lists nothing, since its library is of another version is told by ``driver-library`` alone.

Thresholds:

- ``no-gpu``: no driver, and no NVIDIA display controller on the PCI bus. Source: NVML return codes; sysfs.
- ``no-library``: NVML's library is not installed (12). Source: NVML return codes.
- ``not-loaded``: the kernel module is not loaded (9). Source: NVML return codes.
- ``nouveau``: no driver, and nouveau is loaded in its place. Source: NVML return codes; sysfs.
- ``no-permission``: the driver refuses this user (4). Source: NVML return codes.
- ``hung``: a look did not end within gpu.deadline. Source: open-gpu-kernel-modules#446 (Xid 119: each call
  blocks 45 s), go-nvml#152, gpud#117, NVSentinel#1748.
- ``error``: the driver, or the process that asks it, ends with any other error. Source: NVML return codes.
- ``empty``: the driver answers, and lists no card on a host where none was ever known. Source: own judgement:
  nothing can be lent.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Final

from gpumesh.config import Config
from gpumesh.health.checks import driver_library
from gpumesh.health.devices import Probe
from gpumesh.health.rules import HOST, HostCheck, Look, Rule, SeeHost, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "driver"
CODE_NO_PERMISSION: Final = 4
CODE_NOT_LOADED: Final = 9
CODE_NO_LIBRARY: Final = 12
_SOURCE: Final = "NVML return codes"

NO_GPU = Rule(
    NAME,
    "no-gpu",
    "no driver, and no NVIDIA display controller on the PCI bus",
    Severity.CRITICAL,
    Action.INSPECT,
    _SOURCE + "; sysfs",
    advice="this host has no card that the board can see: check seating, power cables and the BIOS' PCIe "
    "slots; in a virtual machine, check the passthrough",
)
NO_LIBRARY = Rule(
    NAME,
    "no-library",
    "NVML's library is not installed (12)",
    Severity.CRITICAL,
    Action.CONFIGURE,
    _SOURCE,
    advice="install NVIDIA's driver with its library libnvidia-ml.so.1 (Debian: nvidia-driver; Ubuntu: "
    "ubuntu-drivers install); the daemon notices by itself",
)
NOT_LOADED = Rule(
    NAME,
    "not-loaded",
    "the kernel module is not loaded (9)",
    Severity.CRITICAL,
    Action.CONFIGURE,
    _SOURCE,
    advice="run `modprobe nvidia`; if that fails, the kernel's log says why: most often a module not built "
    "for this kernel (dkms status) or not signed for Secure Boot. The daemon notices by itself",
)
NOUVEAU = Rule(
    NAME,
    "nouveau",
    "no driver, and nouveau is loaded in its place",
    Severity.CRITICAL,
    Action.CONFIGURE,
    _SOURCE + "; sysfs",
    advice="nouveau holds the cards: blacklist it, rebuild the initramfs, reboot",
)
NO_PERMISSION = Rule(
    NAME,
    "no-permission",
    "the driver refuses this user (4)",
    Severity.CRITICAL,
    Action.CONFIGURE,
    _SOURCE,
    advice="give the daemon's user access to /dev/nvidiactl and /dev/nvidia*; under systemd see DeviceAllow",
)
HUNG = Rule(
    NAME,
    "hung",
    "a look did not end within gpu.deadline",
    Severity.CRITICAL,
    Action.REBOOT,
    "open-gpu-kernel-modules#446 (Xid 119: each call blocks 45 s), go-nvml#152, gpud#117, NVSentinel#1748",
    advice="drain the host; if the driver does not answer again by itself, reboot. The waiting probe is left "
    "alone and no second one is started",
)
FAILING = Rule(
    NAME,
    "error",
    "the driver, or the process that asks it, ends with any other error",
    Severity.CRITICAL,
    Action.INSPECT,
    _SOURCE,
    advice="look for NVRM in the kernel's log; if it stays, drain the host and reboot it",
)
EMPTY = Rule(
    NAME,
    "empty",
    "the driver answers, and lists no card on a host where none was ever known",
    Severity.CRITICAL,
    Action.INSPECT,
    "own judgement: nothing can be lent",
    advice="check that the driver supports the card and that nothing else (vfio-pci) holds it",
)


def see(look: Look) -> Iterator[Symptom]:
    """Say what is wrong with the driver itself, if anything; at most one symptom."""
    probe = look.probe
    if probe.is_hung:
        yield hung(probe, look.unix)
    elif driver_library.is_seen(look):
        return
    elif probe.driver is None:
        yield _absent(look)
    elif probe.error:
        reason = f"the driver answers with an error: {probe.error}"
        yield Symptom(FAILING, HOST, reason, {"nvml_code": probe.error_code})
    elif probe.num_devices == 0 and not look.stock.inventory.cards:
        if look.pci_addresses == frozenset():
            reason = f"driver {probe.driver.driver_version} is there, but no NVIDIA GPU on the PCI bus"
            yield Symptom(NO_GPU, HOST, reason)
        else:
            yield Symptom(EMPTY, HOST, f"driver {probe.driver.driver_version} lists no GPU")


def hung(probe: Probe, unix: float) -> Symptom:
    """Return what is told of a driver that does not answer, now being Unix second ``unix``."""
    since = unix - probe.hung_for_s
    call = f", in call {probe.call}" if probe.call else ""
    began = datetime.fromtimestamp(since, timezone.utc)
    reason = f"driver not answering since {began:%Y-%m-%d %H:%M:%S} UTC{call}"
    return Symptom(
        HUNG, HOST, reason, {"call": probe.call, "hung_for_s": round(probe.hung_for_s, 1)}, since=since
    )


def _absent(look: Look) -> Symptom:
    code = look.probe.error_code
    evidence = {"nvml_code": code}
    if code in (CODE_NOT_LOADED, CODE_NO_LIBRARY) and look.pci_addresses == frozenset():
        return Symptom(NO_GPU, HOST, "no NVIDIA GPU on the PCI bus, and no NVIDIA driver", evidence)
    if code in (CODE_NOT_LOADED, CODE_NO_LIBRARY) and look.host.is_nouveau_loaded:
        return Symptom(NOUVEAU, HOST, "no NVIDIA driver: nouveau is loaded instead", evidence)
    if code == CODE_NO_LIBRARY:
        return Symptom(
            NO_LIBRARY, HOST, "no NVIDIA driver: libnvidia-ml.so.1 is not installed (NVML 12)", evidence
        )
    if code == CODE_NOT_LOADED:
        return Symptom(NOT_LOADED, HOST, "the NVIDIA kernel module is not loaded (NVML 9)", evidence)
    if code == CODE_NO_PERMISSION:
        return Symptom(NO_PERMISSION, HOST, "the NVIDIA driver refuses this user (NVML 4)", evidence)
    said = look.probe.error or "no words were given"
    return Symptom(FAILING, HOST, f"the driver cannot be asked: {said}", evidence)


def _start(_config: Config) -> SeeHost:
    return see


CHECK = HostCheck(
    NAME,
    __doc__,
    (NO_GPU, NO_LIBRARY, NOT_LOADED, NOUVEAU, NO_PERMISSION, HUNG, FAILING, EMPTY),
    _start,
)
