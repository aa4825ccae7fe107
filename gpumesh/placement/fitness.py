"""Whether one host can take a request, with which GPUs, or in one sentence why not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gpumesh.model import Admission, Gpu, HostState, HostView, Phase, Rejection, Request, Verdict
from gpumesh.versions import is_at_least

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30

HostRule = tuple[str, Callable[[Request, HostView], str]]
"""The code of a rejection, and what says why a host is refused; empty when it is not."""
GpuRule = tuple[str, Callable[[Request, Gpu], str]]


@dataclass(frozen=True, slots=True)
class Fit:
    """A host that can take the request."""

    host: HostView
    gpus: tuple[Gpu, ...]
    """Those it would use, best fit first."""
    num_free: int
    """GPUs that could take a part of this request: the host's weight."""
    left_bytes: int
    """Free memory left over on the GPUs used: less is a tighter fit."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that a request calls for; the others could refuse nothing."""

    host: tuple[HostRule, ...]
    gpu: tuple[GpuRule, ...]


def rules_for(request: Request) -> Rules:
    """Return the rules that matter for this request, in the order in which a refusal is told."""
    is_asked = {
        _apart: bool(request.anti_affinity),
        _label: bool(request.labels),
        _driver: bool(request.driver),
        _cuda: bool(request.cuda),
        _model: bool(request.model),
        _capability: bool(request.capability),
        _memory: bool(request.memory_bytes),
        _free: bool(request.memory_bytes),
    }
    return Rules(
        tuple(item for item in _HOST_RULES if is_asked.get(item[1], True)),
        tuple(item for item in _GPU_RULES if is_asked.get(item[1], True)),
    )


def examine(request: Request, host: HostView, rules: Rules) -> Fit | Rejection:
    """Return how the request fits the host, or the first reason why it does not."""
    for code, rule in rules.host:
        reason = rule(request, host)
        if reason:
            return Rejection(host.host_id, host.name, code, reason)
    gpus: Sequence[Gpu] = host.health.gpus if host.health else ()
    if len(gpus) < request.num_gpus:
        reason = f"has {_count(len(gpus))}, {request.num_gpus} needed"
        return Rejection(host.host_id, host.name, "gpus", reason)
    for code, gpu_rule in rules.gpu:
        judged = [(gpu, gpu_rule(request, gpu)) for gpu in gpus]
        kept = [gpu for gpu, why in judged if not why]
        if len(kept) < request.num_gpus:
            reason = _too_few(request, len(kept), len(gpus), [(gpu, why) for gpu, why in judged if why])
            return Rejection(host.host_id, host.name, code, reason)
        gpus = kept
    return _fit(request, host, gpus)


def _fit(request: Request, host: HostView, gpus: Sequence[Gpu]) -> Fit:
    # The smallest that suffices first, so that large cards stay whole; of unknown size last.
    def tightness(gpu: Gpu) -> tuple[bool, int, bool, int, str]:
        free, total = gpu.memory_free_bytes, gpu.memory_bytes
        return (free is None, free or 0, total is None, total or 0, gpu.uuid)

    used = tuple(sorted(gpus, key=tightness)[: request.num_gpus])
    left_bytes = sum((gpu.memory_free_bytes or 0) - request.memory_bytes for gpu in used)
    return Fit(host, used, num_free=len(gpus), left_bytes=max(0, left_bytes))


def _state(request: Request, host: HostView) -> str:
    if host.state is HostState.READY:
        return ""
    if host.state is not HostState.DEGRADED:
        return f"is {host.state}: {host.reason}" if host.reason else f"is {host.state}"
    if not request.allow_degraded:
        return f"is degraded and the request wants only whole hosts: {host.reason}"
    # A worse headline hides these two, yet each alone would keep a healthy host from taking work.
    if host.admission is not Admission.OPEN:
        return f"is {host.admission}: {host.admission_reason or 'its owner says so'}"
    if host.phase is not Phase.SETTLED:
        return f"is in {host.phase} and degraded: {host.reason}"
    return ""


def _apart(request: Request, host: HostView) -> str:
    for name in request.anti_affinity:
        if name in {host.host_id, host.name}:
            return f"the request asks not to use {name}"
    return ""


def _label(request: Request, host: HostView) -> str:
    labels = host.facts.labels if host.facts else {}
    for name, wanted in sorted(request.labels.items()):
        if labels.get(name) != wanted:
            found = f"is {labels[name]!r}" if name in labels else "is not set"
            return f"label {name} {found}, {wanted!r} needed"
    return ""


def _driver(request: Request, host: HostView) -> str:
    found = host.health.driver_version if host.health else None
    return _version("driver", found, request.driver)


def _cuda(request: Request, host: HostView) -> str:
    found = host.health.cuda_version if host.health else None
    return _version("CUDA", found, request.cuda)


def _version(what: str, found: str | None, wanted: str) -> str:
    if is_at_least(found, wanted):
        return ""
    return f"{what} is {found or 'unknown'}, {wanted} or newer needed"


def _model(request: Request, gpu: Gpu) -> str:
    return (
        ""
        if request.model.casefold() in gpu.model.casefold()
        else f"is a {gpu.model}, {request.model} needed"
    )


def _capability(request: Request, gpu: Gpu) -> str:
    if is_at_least(gpu.capability, request.capability):
        return ""
    return f"has compute capability {gpu.capability or 'unknown'}, {request.capability} needed"


def _memory(request: Request, gpu: Gpu) -> str:
    if gpu.memory_bytes is None or gpu.memory_bytes < request.memory_bytes:
        return f"has {_size(gpu.memory_bytes)}, {_size(request.memory_bytes)} needed"
    return ""


def _verdict(_request: Request, gpu: Gpu) -> str:
    if gpu.index is None:
        return "is gone"
    if gpu.verdict is Verdict.HEALTHY:
        return ""
    worst = gpu.findings[0].reason if gpu.findings else ""
    return f"is {gpu.verdict}" + (f": {worst}" if worst else "")


def _busy(_request: Request, gpu: Gpu) -> str:
    if gpu.is_busy is None:
        return "may be busy: the driver cannot say"
    return "is busy" if gpu.is_busy else ""


def _free(request: Request, gpu: Gpu) -> str:
    if request.memory_bytes and (
        gpu.memory_free_bytes is None or gpu.memory_free_bytes < request.memory_bytes
    ):
        return f"has {_size(gpu.memory_free_bytes)} free, {_size(request.memory_bytes)} needed"
    return ""


_HOST_RULES: Final[tuple[HostRule, ...]] = (
    ("state", _state),
    ("anti-affinity", _apart),
    ("label", _label),
    ("driver", _driver),
    ("cuda", _cuda),
)
_GPU_RULES: Final[tuple[GpuRule, ...]] = (
    ("model", _model),
    ("capability", _capability),
    ("memory", _memory),
    ("verdict", _verdict),
    ("busy", _busy),
    ("memory", _free),
)


def _too_few(request: Request, num_kept: int, num_gpus: int, refused: Sequence[tuple[Gpu, str]]) -> str:
    gpu, why = refused[0]
    more = f" and {len(refused) - 1} more likewise or worse" if len(refused) > 1 else ""
    return f"{num_kept} of {_count(num_gpus)} fit, {request.num_gpus} needed: {gpu.uuid} {why}{more}"


def _count(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


def _size(size_bytes: int | None) -> str:
    """Return a size in words, by integers alone."""
    if size_bytes is None:
        return "unknown memory"
    if size_bytes >= _GIB:
        tenths = size_bytes * 10 // _GIB
        return f"{tenths // 10}.{tenths % 10} GiB"
    return f"{size_bytes // _MIB} MiB"
