"""What looking costs: sleeping cards, games that stutter, drivers that are slow."""

from __future__ import annotations

from gpumesh.model import HostState, Severity
from tests.samples.pci import put_on_bus
from tests.samples.site import Daemon, Site, told


async def test_beszel_1522_a_card_that_sleeps_is_not_asked(daemon: Daemon) -> None:
    """Polling kept a laptop's card awake, and the battery empty."""
    daemon.install()
    daemon.make(deadline_s=30.0)
    daemon.driver.add_gpu(pci_bus_id="00000000:01:00.0")
    daemon.driver.add_gpu(pci_bus_id="00000000:02:00.0")
    for address in ("0000:01:00.0", "0000:02:00.0"):
        put_on_bus(daemon.root, address, "active")
    await daemon.settle()
    put_on_bus(daemon.root, "0000:01:00.0", "suspended")
    daemon.driver.hang("*", slot=0)  # whoever asks that card is stuck
    daemon.driver.fault("gpu 0 handle hang")
    await daemon.look()
    assert [state.is_resting for state in daemon.latest.devices] == [True, False]
    assert not daemon.latest.is_hung
    assert daemon.state() is HostState.READY, "its verdict stands while it sleeps"


def test_nvidia_gpu_exporter_90_a_look_is_few_calls_and_what_is_static_is_asked_once(site: Site) -> None:
    """Each poll asked everything, and games stuttered."""
    site.cards.add_gpu("rtx-4080-super", load="loaded")
    site.look()
    first = list(site.calls)
    site.calls.clear()
    site.look()
    second = list(site.calls)
    assert len(second) <= 30
    assert len(second) < len(first) * 2 / 3
    static = ("nvmlDeviceGetName", "nvmlDeviceGetVbiosVersion", "nvmlDeviceGetPciInfo", "nvmlDeviceGetSerial")
    assert not [call for call in second if call.split()[0] in static]
    assert not [call for call in second if "RemappedRows" in call or "EccMode" in call], "GeForce has none"


def test_netdata_14522_a_slow_driver_is_told_with_what_makes_it_slow(site: Site) -> None:
    """Without persistence mode each call took six seconds."""
    slot = site.cards.add_gpu("h100")
    site.cards.set(slot, "persistence_mode", 0)
    site.look()
    site.cost_s["nvmlDeviceGetHandleByIndex"] = 6.0
    site.look_for(120)
    finding = told(site.report, "probe")
    assert (finding.evidence["code"], finding.severity) == ("slow", Severity.INFO)
    assert "6.0 s" in finding.reason
    assert "nvidia-persistenced" in finding.advice
    assert site.state() is HostState.READY, "slow is not broken"
