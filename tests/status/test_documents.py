from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from gpumesh.health.devices import DriverInfo, MigInstance, Probe, Reading, XidCount
from gpumesh.model import Finding, HealthReport, HostState, Severity, Verdict
from gpumesh.status import documents
from tests.samples.carved import carved_probe, carved_view
from tests.samples.fleet import NOW, host, resting_probe, sample_probe, sample_view, uuid_of


def test_instants_are_iso_8601_in_utc() -> None:
    assert documents.instant(NOW) == "2027-01-15T08:00:00.000Z"


@pytest.mark.parametrize("unix", [0.0, -1.0, math.nan, math.inf, 1e300])
def test_an_instant_that_is_none_is_null(unix: float) -> None:
    assert documents.instant(unix) is None


def test_numbers_that_json_cannot_hold_become_null() -> None:
    finding = Finding(
        "clock", "host", Severity.WARNING, "odd", evidence={"offset_s": math.nan, "limit_s": 1.0}
    )
    document = documents.finding_document(finding)
    assert document["evidence"] == {"offset_s": None, "limit_s": 1.0}
    json.loads(documents.encode(document), parse_constant=pytest.fail)


def test_text_that_is_not_unicode_does_not_break_the_answer() -> None:
    assert json.loads(documents.encode({"name": "a\udcff"})) == {"name": "a?"}


def test_a_host_without_record_is_unknown_and_has_no_gpus() -> None:
    document = documents.host_document(
        host(9, HostState.JOINING, facts=None, health=None, evidence_age_s=None)
    )
    assert document["verdict"] == "unknown"
    assert document["gpus"] == []
    assert document["name"] == "99999999"
    assert document["evidence_age_s"] is None
    assert document["boot_id"] is None


def test_what_a_card_cannot_say_is_absent_from_its_reading() -> None:
    document = documents.reading_document(Reading(temperature_c=0, power_w=math.nan, processes=()))
    assert document == {"temperature_c": 0, "processes": []}


def test_status_joins_readings_to_cards_by_uuid() -> None:
    document = documents.status_document(sample_view(), sample_probe())
    assert [gpu["reading"]["temperature_c"] for gpu in document["gpus"]] == [46, 47]
    assert document["num_peers"] == 4
    assert document["peer_states"] == {"failed": 1, "unhealthy": 1, "cordoned": 1, "degraded": 1}


def test_a_lost_card_has_no_reading_and_is_told_of() -> None:
    probe = sample_probe()
    lost = replace(probe.devices[1], reading=None, error="GPU is lost (NVML 15)", error_code=15, is_lost=True)
    document = documents.status_document(sample_view(), replace(probe, devices=(probe.devices[0], lost)))
    assert document["gpus"][0]["reading"] is not None
    assert document["gpus"][1]["reading"] is None
    assert document["probe"]["failed_devices"] == [
        {"index": 1, "error": "GPU is lost (NVML 15)", "error_code": 15, "lost": True}
    ]


def test_absurd_values_that_were_left_out_are_told_by_card() -> None:
    probe = sample_probe()
    document = documents.probe_document(probe)
    assert document is not None
    assert document["absurd_values"] == []
    second = replace(probe.devices[1], num_dropped=2)
    document = documents.probe_document(replace(probe, devices=(probe.devices[0], second)))
    assert document is not None
    assert document["absurd_values"] == [{"index": 1, "uuid": uuid_of(1, 1), "count": 2}]


def test_a_hung_driver_names_the_call() -> None:
    driver = DriverInfo(None, None, None)
    document = documents.probe_document(Probe(driver, is_hung=True, call="nvmlInit_v2", hung_for_s=12.0))
    assert document is not None
    assert (document["hung"], document["hung_call"], document["hung_for_s"]) == (True, "nvmlInit_v2", 12.0)


def test_before_the_first_probe_there_is_none() -> None:
    view = sample_view()
    me = replace(view.hosts[0], health=HealthReport(Verdict.UNKNOWN))
    document = documents.status_document(replace(view, hosts=(me, *view.hosts[1:])), None)
    assert document["probe"] is None
    assert document["verdict"] == "unknown"


def test_states_are_counted_worst_first() -> None:
    assert list(documents.state_counts(sample_view().hosts)) == [
        "failed",
        "unhealthy",
        "cordoned",
        "degraded",
        "ready",
    ]


def test_what_a_card_is_and_its_links_and_slices_are_shown_and_what_it_lacks_is_absent() -> None:
    probe = sample_probe()
    device = probe.devices[0]
    assert device.info is not None
    assert device.reading is not None
    changed = replace(
        device,
        info=replace(device.info, power_limit_max_w=450.0),
        reading=replace(
            device.reading,
            nvlinks=(True, False, None),
            mig_instances=(MigInstance("MIG-1", 9, 0, "1g.10gb"),),
        ),
    )
    document = documents.status_document(sample_view(), replace(probe, devices=(changed,)))
    gpu = document["gpus"][0]
    assert gpu["device"]["power_limit_max_w"] == 450.0
    assert not {"serial", "uuid"} & set(gpu["device"])
    assert gpu["reading"]["nvlinks"] == [True, False, None]
    assert gpu["reading"]["mig_instances"] == [
        {"uuid": "MIG-1", "gpu_instance": 9, "compute_instance": 0, "profile": "1g.10gb"}
    ]
    assert document["gpus"][1]["device"] is None


def test_instances_are_shown_wherever_this_hosts_cards_are_with_who_runs_in_them() -> None:
    view, probe = carved_view(), carved_probe()
    shown = [
        documents.status_document(view, probe)["gpus"][:2],
        documents.fleet_document(view, probe)["hosts"][0]["gpus"],
        documents.gpus_document(view, probe)["gpus"][:2],
        documents.host_document(view.me, probe)["gpus"],
    ]
    for carved, whole in shown:
        assert [item["num_processes"] for item in carved["mig_instances"]] == [3, 0, 0, 0]
        assert carved["mig_instances"][0]["utilization_sm_percent"] == 97.9
        assert whole["mig_instances"] is None
    others = documents.fleet_document(view, probe)["hosts"][1:]
    assert {gpu["mig_instances"] for host in others for gpu in host["gpus"]} == {None}
    reading = probe.devices[0].reading
    assert reading is not None
    unlisted = replace(probe, devices=(replace(probe.devices[0], reading=replace(reading, processes=None)),))
    first = documents.host_document(view.me, unlisted)["gpus"][0]["mig_instances"][0]
    assert first["num_processes"] is None, "nobody is listed, and that is not nobody"


def test_a_card_that_was_let_sleep_is_told_from_one_that_could_not_be_read() -> None:
    probe = sample_probe()
    asleep = replace(probe.devices[0], reading=None, is_resting=True)
    document = documents.status_document(sample_view(), replace(probe, devices=(asleep, probe.devices[1])))
    assert [(gpu["resting"], gpu["reading"] is None) for gpu in document["gpus"]] == [
        (True, True),
        (False, False),
    ]


def test_xids_are_shown_with_count_and_time() -> None:
    counts = (XidCount("GPU-1", "00000000:01:00.0", 31, 2, NOW, is_settled=True),)
    document = documents.probe_document(replace(sample_probe(), xids=counts))
    assert document is not None
    assert document["xids"] == [
        {
            "uuid": "GPU-1",
            "pci_bus_id": "00000000:01:00.0",
            "xid": 31,
            "count": 2,
            "last": "2027-01-15T08:00:00.000Z",
            "settled": True,
        }
    ]


def test_a_resting_card_shows_its_last_reading_apart_and_with_its_instant() -> None:
    document = documents.status_document(sample_view(), resting_probe())
    first, second = document["gpus"]
    assert (first["resting"], first["reading"]) == (True, None)
    assert first["last_reading"]["temperature_c"] == 46
    assert first["last_read"] == "2027-01-15T07:57:00.000Z"
    assert (second["resting"], second["last_reading"], second["last_read"]) == (False, None, None)
