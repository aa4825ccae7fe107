"""The card's way to the host: judged by what it could do, and when."""

from __future__ import annotations

import pytest

from gpumesh.model import Verdict
from tests.samples.site import Site, codes


def test_nvtop_6_a_slow_link_at_rest_is_how_cards_save_power(site: Site) -> None:
    """Gen 1 was taken for a fault."""
    slot = site.cards.add_gpu("rtx-4080-super")
    site.look_for(600)
    assert (site.reading(slot).pcie_gen, site.gpu(slot).verdict) == (1, Verdict.HEALTHY)
    assert site.gpu(slot).findings == ()


def test_open_gpu_kernel_modules_1010_a_link_stuck_at_gen_1_under_load_is_a_fault(site: Site) -> None:
    """The link stayed at Gen 1 under full load until the next reboot."""
    slot = site.cards.add_gpu("rtx-4080-super", load="loaded")
    site.cards.set(slot, "utilization_gpu_percent", 98)
    site.look_for(300)
    assert site.gpu(slot).findings == ()
    site.cards.set(slot, "pcie_generation", 1)
    site.look_for(90)
    assert codes(site.gpu(slot)) == ["pcie/generation"]
    assert site.gpu(slot).verdict is Verdict.DEGRADED


@pytest.mark.parametrize(("replays", "found"), [(15, []), (20, ["pcie-replays/many"])])
def test_dcgm_184_replays_are_judged_by_generation_and_lanes(
    site: Site, replays: int, found: list[str]
) -> None:
    """One number for all links gave false alarms: 16 lanes of Gen 4 bear 15 a minute."""
    slot = site.cards.add_gpu("rtx-4080-super")
    for minute in range(5):
        site.cards.set(slot, "pcie_replays", replays * minute)
        for _ in range(12):
            site.look()
    assert codes(site.gpu(slot)) == found
