"""Xids: counted and dated, gone when they no longer matter, known from the boot on."""

from __future__ import annotations

from gpumesh.health.xid_lines import KernelLine
from gpumesh.model import Verdict
from tests.samples.site import Site, codes


def test_dcgm_exporter_500_the_gauge_goes_once_the_card_is_well_and_the_count_stays(site: Site) -> None:
    """The gauge showed the last Xid for ever."""
    slot = site.cards.add_gpu("h100")
    uuid = str(site.cards.get(slot, "uuid"))
    site.look()
    assert site.metric("DCGM_FI_DEV_XID_ERRORS") == {}
    site.cards.xid(slot, 119)
    site.look()
    assert site.metric("DCGM_FI_DEV_XID_ERRORS") == {uuid: 119}
    dated = site.metric("gpumesh_xid_last_timestamp_seconds", xid="119")
    site.look_for(700)
    assert site.gpu(slot).verdict is Verdict.HEALTHY
    assert site.metric("DCGM_FI_DEV_XID_ERRORS") == {}
    assert site.metric("gpumesh_xid_total", xid="119") == {uuid: 1}
    assert site.metric("gpumesh_xid_last_timestamp_seconds", xid="119") == dated


def test_dcgm_exporter_190_a_repeat_is_seen_in_count_and_time(site: Site) -> None:
    """The same Xid a second time changed nothing that was scraped."""
    slot = site.cards.add_gpu("h100")
    uuid = str(site.cards.get(slot, "uuid"))
    site.look()
    seen: list[tuple[float, float]] = []
    for _ in range(3):
        site.cards.xid(slot, 31)
        site.look()
        labels = {"xid": "31"}
        count = site.metric("gpumesh_xid_total", **labels)[uuid]
        seen.append((count, site.metric("gpumesh_xid_last_timestamp_seconds", **labels)[uuid]))
    assert [count for count, _ in seen] == [1, 2, 3]
    assert len({at for _, at in seen}) == 3


def test_nvsentinel_1532_an_xid_from_before_the_start_counts(site: Site) -> None:
    """What had happened before the monitor started was never told."""
    slot = site.cards.add_gpu("h100")
    address = str(site.cards.get(slot, "pci_bus_id"))[4:-2]
    boot = KernelLine(site.now - 120, f"NVRM: Xid (PCI:{address}): 95, pid=1, name=train")
    probe = site._probe()
    site.judge(probe, [boot])
    assert codes(site.gpu(slot)) == ["xid/reset"]
    assert site.gpu(slot).verdict is Verdict.UNHEALTHY
