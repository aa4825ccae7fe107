"""Are the kernel module and the library of one version: after an unattended upgrade they are not.

Running work is fine and only new work fails, so the host is drained, not killed (k8s-device-plugin#221), and
it is well again by itself once the modules are reloaded. NVML tells by refusing whoever starts now; the
daemon's own process goes on with the library that it loaded before, so the versions on disk are compared
too. It is told as the cause: what else the driver cannot do meanwhile is not.

Thresholds:

- ``mismatch``: the kernel module and the library are of different versions (18). Source: NVML return codes;
  k8s-device-plugin#221, shine-cluster#30.
- ``upgraded``: the libraries on disk are all of other versions than the kernel module that is loaded. Source:
  k8s-device-plugin#221, shine-cluster#30: an unattended upgrade, and the host stayed ready.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpumesh.config import Config
from gpumesh.health.hostprobe import HostProbe
from gpumesh.health.rules import HOST, HostCheck, Look, Rule, SeeHost, Symptom
from gpumesh.model import Action, Severity

NAME: Final = "driver-library"
CODE_MISMATCH: Final = 18
_ADVICE: Final = (
    "running work is fine, new work fails: drain the host, then reboot it or reload the nvidia modules"
)

MISMATCH = Rule(
    NAME,
    "mismatch",
    "the kernel module and the library are of different versions (18)",
    Severity.CRITICAL,
    Action.REBOOT,
    "NVML return codes; k8s-device-plugin#221, shine-cluster#30",
    advice=_ADVICE,
)
UPGRADED = Rule(
    NAME,
    "upgraded",
    "the libraries on disk are all of other versions than the kernel module that is loaded",
    Severity.CRITICAL,
    Action.REBOOT,
    "k8s-device-plugin#221, shine-cluster#30: an unattended upgrade, and the host stayed ready",
    advice=_ADVICE,
)


def see(look: Look) -> Iterator[Symptom]:
    """Say which versions differ, by the driver's word or by the files; at most one symptom."""
    probe = look.probe
    if probe.is_hung:
        return
    if probe.driver is None:
        if probe.error_code == CODE_MISMATCH:
            said = probe.error or "the loaded kernel module and the installed library differ"
            reason = f"the driver was upgraded while it ran: {said}"
            yield Symptom(MISMATCH, HOST, reason, {"nvml_code": CODE_MISMATCH})
    elif not probe.error and _is_upgraded(look.host):
        versions = f"kernel module {look.host.module_version}, library {look.host.library_versions[0]}"
        yield Symptom(UPGRADED, HOST, f"the driver was upgraded while it ran: {versions}")


def is_seen(look: Look) -> bool:
    """Tell whether this look shows a mismatch."""
    return any(True for _ in see(look))


def _is_upgraded(host: HostProbe) -> bool:
    """Say whether a program that starts now loads a library that the module refuses.

    Our own child goes on with the library that it loaded before, so that NVML does not tell.
    """
    return (
        host.module_version is not None
        and bool(host.library_versions)
        and host.module_version not in host.library_versions
    )


def _start(_config: Config) -> SeeHost:
    return see


CHECK = HostCheck(NAME, __doc__, (MISMATCH, UPGRADED), _start)
