"""Cards that are gone, or that one call says are: the others go on, and nobody is condemned for ever."""

from __future__ import annotations

from gpumesh.model import HostState, Verdict
from tests.samples.site import Site, codes, told

UNKNOWN = 999


def test_nvsentinel_155_a_card_off_the_bus_without_an_xid_is_known_by_the_kernels_line(site: Site) -> None:
    """The card was gone, and no Xid said so."""
    gone, kept = site.cards.add_gpu("h100"), site.cards.add_gpu("h100")
    site.look()
    site.cards.lose(gone)
    address = str(site.cards.get(gone, "pci_bus_id"))[4:]
    site.look(f"NVRM: GPU {address}: GPU has fallen off the bus.")
    assert set(codes(site.gpu(gone))) == {"inventory/lost", "xid/off-the-bus"}
    assert site.gpu(kept).verdict is Verdict.HEALTHY
    assert site.state() is HostState.DEGRADED
    assert site.latest.xid_events == ()


def test_nvsentinel_684_a_card_on_the_bus_that_the_driver_does_not_list_is_told(site: Site) -> None:
    """Eight cards in the machine, seven with the driver, and all was well."""
    for _ in range(3):
        site.cards.add_gpu("h100")
    site.bus = tuple(str(site.cards.get(slot, "pci_bus_id")) for slot in range(3))
    site.cards.limit_count(2)
    report = site.look_for(60)
    assert site.bus[2] in told(report, "inventory").reason
    assert codes(report) == ["inventory/pci"]
    site.cards.clear_faults()
    site.look_for(60)
    assert codes(site.report) == []
    site.cards.limit_count(2)
    site.look()
    assert "inventory/lost" in codes(site.gpu(2)), "a card that was there is missed at once"
    assert site.state() is HostState.DEGRADED


def test_gpud_1180_an_unknown_error_of_one_handle_leaves_the_rest_at_work(site: Site) -> None:
    """The process ended on "unknown error" for one handle, and nobody watched the other seven."""
    good, bad = site.cards.add_gpu("h100"), site.cards.add_gpu("h100")
    site.look()
    site.cards.fail_handle(bad, UNKNOWN)
    site.look()
    assert (site.gpu(good).verdict, site.gpu(bad).verdict) == (Verdict.HEALTHY, Verdict.UNHEALTHY)
    assert site.state() is HostState.DEGRADED


def test_device_plugin_338_no_call_that_fails_on_one_card_costs_the_other_its_look(site: Site) -> None:
    """A panic on the first unexpected return code."""
    good, bad = site.cards.add_gpu("h100"), site.cards.add_gpu("h100")
    site.look()
    asked = {call.split()[0] for call in site.calls if call.endswith("on gpu 1")}
    assert len(asked) > 30
    # Without a version this is how the binding names them; the library has them with one.
    versions = {"HandleByIndex": "_v2", "PciInfo": "_v3"}
    for call in sorted(asked):
        site.close()
        if "Event" in call:
            continue  # sets of events are the driver's and not a card's
        name = call + next((suffix for stem, suffix in versions.items() if call.endswith(stem)), "")
        site.cards.clear_faults()
        site.cards.fail(name, UNKNOWN, slot=bad)
        site.look()
        assert site.gpu(good).verdict is Verdict.HEALTHY, call
        assert site.reading(good).temperature_c == 41, call


def test_device_plugin_1014_a_lost_card_that_answers_again_is_taken_back(site: Site) -> None:
    """Unhealthy until the process was restarted."""
    slot = site.cards.add_gpu("h100")
    site.look()
    site.cards.lose(slot)
    site.look()
    assert site.gpu(slot).verdict is Verdict.UNHEALTHY
    site.cards.clear_faults()
    site.look()
    assert site.gpu(slot).verdict is Verdict.UNHEALTHY, "one lucky look frees nothing"
    site.look_for(30)
    assert site.gpu(slot).verdict is Verdict.HEALTHY


def test_device_plugin_1974_a_card_that_was_reset_is_taken_back(site: Site) -> None:
    """After an Xid the card stayed out, though it had been reset since."""
    slot = site.cards.add_gpu("h100")
    site.look()
    site.cards.xid(slot, 119)
    site.look_for(60)
    assert codes(site.gpu(slot)) == ["xid/reset"]
    site.cards.set(slot, "energy_total_mj", 7)  # the counter starts anew with a reset
    site.look_for(90)
    assert site.gpu(slot).findings == ()
    assert site.gpu(slot).verdict is Verdict.HEALTHY
