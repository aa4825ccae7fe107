"""A host with one card carved up by MIG and one whole, as its own daemon knows them."""

from __future__ import annotations

from dataclasses import replace

from gpumesh.health.devices import DeviceInfo, DeviceState, Probe
from gpumesh.health.simulated import load_profile
from gpumesh.model import View
from tests.samples.fleet import HEALTHY, gpu, sample_probe, sample_view, uuid_of

MODEL = "NVIDIA H100 80GB HBM3"


def carved_view() -> View:
    """Return the sample fleet, in which pc01's first card is the carved-up H100."""
    view = sample_view()
    profile = load_profile("h100-mig")
    card = replace(
        gpu(1, 0),
        model=MODEL,
        memory_bytes=profile.card.memory_total_bytes,
        memory_free_bytes=profile.loaded.memory_free_bytes,
        capability="9.0",
        is_busy=True,
    )
    me = replace(view.hosts[0], health=replace(HEALTHY, gpus=(card, gpu(1, 1))))
    return replace(view, hosts=(me, *view.hosts[1:]))


def carved_probe() -> Probe:
    """Return pc01's look at its cards; the H100 is at work in its first instance."""
    probe = sample_probe()
    loaded = load_profile("h100-mig").loaded
    instances = tuple(
        replace(item, uuid=f"MIG-{place}") for place, item in enumerate(loaded.mig_instances or ())
    )
    info = DeviceInfo(0, uuid_of(1, 0), MODEL, "00000000:01:00.0", minor=0)
    state = DeviceState(0, info, replace(loaded, mig_instances=instances))
    return replace(probe, devices=(state, probe.devices[1]))
