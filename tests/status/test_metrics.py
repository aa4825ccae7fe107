from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpumesh.health.devices import MigInstance, Probe, Reading, XidCount
from gpumesh.model import HostState
from gpumesh.status.metrics import MAX_HOST_SERIES, exposition, mesh_exposition
from tests.requirements import lacks
from tests.samples.carved import carved_probe, carved_view
from tests.samples.fleet import NOW, SampleSource, host, resting_probe, sample_probe, sample_view, uuid_of
from tests.status.conftest import Face

COUNTERS = {"beat": 42.0, "drops/replay": 3.0, "drops/unknown_key": 1.0, "sent/ping": 10.0, "members": 5.0}


def series(text: str, name: str) -> list[tuple[dict[str, str], float]]:
    return [
        (sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    ]


def test_the_exposition_is_as_it_was(golden: Callable[[str, str], None]) -> None:
    golden("metrics.txt", mesh_exposition(sample_view(), sample_probe(), COUNTERS))


def test_a_gpu_carries_dcgm_exporters_labels_in_its_order() -> None:
    line = next(
        line
        for line in mesh_exposition(sample_view(), sample_probe(), {}).splitlines()
        if line.startswith("DCGM_FI_DEV_GPU_TEMP{")
    )
    names = [part.partition("=")[0] for part in line[line.index("{") + 1 : line.index("}")].split(",")]
    assert names == ["gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION"]


def test_counters_of_dcgm_exporter_keep_their_names() -> None:
    text = mesh_exposition(sample_view(), sample_probe(), {})
    assert "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n" in text
    assert "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total" not in text


def test_what_the_card_cannot_say_has_no_series() -> None:
    probe = sample_probe()
    bare = replace(probe.devices[0], reading=Reading(temperature_c=40, temperature_memory_c=255))
    text = mesh_exposition(sample_view(), replace(probe, devices=(bare,)), {})
    assert len(series(text, "DCGM_FI_DEV_GPU_TEMP")) == 1
    assert "DCGM_FI_DEV_POWER_USAGE" not in text
    assert "DCGM_FI_DEV_MEMORY_TEMP" not in text


def test_memory_errors_are_shown_by_location_and_span() -> None:
    probe = sample_probe()
    reading = Reading(
        ecc_sram_corrected_volatile=1,
        ecc_sram_uncorrected_aggregate=2,
        ecc_dram_corrected_aggregate=3,
        ecc_dram_uncorrected_volatile=0,
        ecc_sram_threshold_exceeded=False,
    )
    card = replace(probe.devices[0], reading=reading)
    text = mesh_exposition(sample_view(), replace(probe, devices=(card,)), {})
    told = [line.partition("{")[0] for line in text.splitlines() if line.startswith("DCGM")]
    values = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith("DCGM")]
    assert dict(zip(told, values, strict=True)) == {
        "DCGM_FI_DEV_ECC_SBE_VOL_SRM": "1",
        "DCGM_FI_DEV_ECC_DBE_AGG_SRM": "2",
        "DCGM_FI_DEV_ECC_SBE_AGG_DEV": "3",
        "DCGM_FI_DEV_ECC_DBE_VOL_DEV": "0",
        "DCGM_FI_DEV_THRESHOLD_SRM": "0",
    }


def test_windows_traffic_and_engines_are_shown_where_the_card_tells() -> None:
    probe = sample_probe()
    reading = Reading(
        bar1_total_bytes=256 << 20, bar1_used_bytes=36 << 20, pcie_tx_bytes=5000, utilization_jpeg_percent=7
    )
    text = mesh_exposition(
        sample_view(),
        replace(probe, devices=(replace(probe.devices[0], reading=reading), probe.devices[1])),
        {},
    )
    assert [value for _, value in series(text, "DCGM_FI_DEV_BAR1_USED")] == [36.0]
    assert [value for _, value in series(text, "DCGM_FI_DEV_BAR1_TOTAL")] == [256.0]
    assert "PCIE_TX_THROUGHPUT{" in text
    assert "PCIE_RX_THROUGHPUT" not in text
    assert series(text, "gpumesh_gpu_engine_utilization_percent") == [
        ({"UUID": uuid_of(1, 0), "engine": "jpeg"}, 7.0)
    ]


@pytest.mark.parametrize(
    "change",
    [{"is_lost": True}, {"reading": None, "error": "Unknown Error (NVML 999)"}, {"info": None}],
)
def test_a_lost_or_failing_card_has_no_series_and_the_other_keeps_its_own(change: dict[str, object]) -> None:
    probe = sample_probe()
    failing = replace(probe.devices[0], **change)  # type: ignore[arg-type]
    text = mesh_exposition(sample_view(), replace(probe, devices=(failing, probe.devices[1])), {})
    assert [labels["gpu"] for labels, _ in series(text, "DCGM_FI_DEV_SM_CLOCK")] == ["1"]


def test_one_call_that_fails_costs_the_card_that_series_alone() -> None:
    probe = sample_probe()
    partial = replace(probe.devices[0], error="power: Unknown Error (NVML 999)")
    text = mesh_exposition(sample_view(), replace(probe, devices=(partial, probe.devices[1])), {})
    assert [labels["gpu"] for labels, _ in series(text, "DCGM_FI_DEV_SM_CLOCK")] == ["0", "1"]


def test_a_hung_driver_leaves_no_readings_and_says_so() -> None:
    text = mesh_exposition(sample_view(), replace(sample_probe(), is_hung=True, hung_for_s=9.0), {})
    assert "DCGM" not in text
    assert series(text, "gpumesh_probe_hung") == [({}, 1.0)]
    assert series(text, "gpumesh_probe_duration_seconds") == []


def test_no_driver_and_no_probe_yet_are_not_zero() -> None:
    for probe in (None, Probe(None, error="no library")):
        assert "DCGM" not in mesh_exposition(sample_view(), probe, {})
    assert "gpumesh_probe" not in mesh_exposition(sample_view(), None, {})


def test_a_standing_xid_is_the_cards_last_xid() -> None:
    view = sample_view()
    me, lost = view.hosts[0], view.hosts[1]
    assert me.health is not None
    assert lost.health is not None
    gpus = (replace(me.health.gpus[0], findings=lost.health.gpus[1].findings), me.health.gpus[1])
    me = replace(me, health=replace(me.health, gpus=gpus))
    text = mesh_exposition(replace(view, hosts=(me, *view.hosts[1:])), sample_probe(), {})
    assert [(labels["gpu"], value) for labels, value in series(text, "DCGM_FI_DEV_XID_ERRORS")] == [
        ("0", 79.0)
    ]


def test_every_host_shows_its_state_and_every_state_its_count() -> None:
    text = mesh_exposition(sample_view(), None, {})
    states = {labels["host"]: labels["state"] for labels, _ in series(text, "gpumesh_host_state")}
    assert states == {
        "pc01": "ready",
        "pc02": "degraded",
        "pc03": "failed",
        "pc04": "cordoned",
        "pc05": "unhealthy",
    }
    counts = {labels["state"]: value for labels, value in series(text, "gpumesh_fleet_hosts")}
    assert len(counts) == len(HostState)
    assert (counts["ready"], counts["isolated"], sum(counts.values())) == (1, 0, 5)


def test_host_series_are_bounded_and_keep_the_telling_ones() -> None:
    view = sample_view()
    many = tuple(replace(host(1), host_id=f"id-{i}", is_self=False) for i in range(MAX_HOST_SERIES))
    text = mesh_exposition(replace(view, hosts=(*view.hosts, *many)), None, {})
    assert sorted(labels["host"] for labels, _ in series(text, "gpumesh_host_state")) == [
        "pc01",
        "pc02",
        "pc03",
        "pc04",
        "pc05",
    ]


def test_internals_become_counters_with_labels_or_gauges() -> None:
    text = mesh_exposition(sample_view(), None, COUNTERS)
    assert series(text, "gpumesh_drops_total") == [({"reason": "replay"}, 3), ({"reason": "unknown_key"}, 1)]
    assert series(text, "gpumesh_sent_total") == [({"kind": "ping"}, 10)]
    assert series(text, "gpumesh_beat") == [({}, 42)]


async def test_metrics_hold_the_process_too_in_the_text_format(face: Face, source: SampleSource) -> None:
    answer = await face.get("/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert series(answer.text, "process_start_time_seconds")
    assert series(answer.text, "gpumesh_build_info")


def test_promtool_finds_nothing_wrong_with_our_own_names() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        lacks("promtool is not installed (Debian: apt install prometheus)")
    text = exposition(SampleSource()).decode()
    own = "".join(f"{line}\n" for line in text.splitlines() if "DCGM_FI_" not in line)
    found = subprocess.run(
        [promtool, "check", "metrics"], input=own, capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_dcgm_exporter_500_each_xid_has_a_count_and_a_time_also_on_a_lost_card() -> None:
    uuid = uuid_of(1, 0)
    counts = (
        XidCount(uuid, "00000000:01:00.0", 31, 3, NOW - 60, is_settled=True),
        XidCount(uuid, "00000000:01:00.0", None, 1, NOW, is_settled=False),
    )
    probe = replace(sample_probe(), xids=counts)
    lost = replace(probe.devices[0], is_lost=True, reading=None)
    text = mesh_exposition(sample_view(), replace(probe, devices=(lost,)), {})
    labels = {"UUID": uuid, "pci_bus_id": "00000000:01:00.0"}
    assert series(text, "gpumesh_xid_total") == [({**labels, "xid": "31"}, 3)]
    assert series(text, "gpumesh_xid_last_timestamp_seconds") == [({**labels, "xid": "31"}, NOW - 60)]
    assert series(text, "gpumesh_off_the_bus_total") == [(labels, 1)]


def test_of_several_standing_xids_the_latest_is_the_gauge_and_a_lost_card_keeps_it() -> None:
    view = sample_view()
    me, hurt = view.hosts[0], view.hosts[1]
    assert me.health is not None
    assert hurt.health is not None
    fall = hurt.health.gpus[1].findings[1]
    fault = replace(fall, evidence={"xid": 31}, since=NOW)
    gpu = replace(me.health.gpus[0], findings=(fall, fault))
    me = replace(me, health=replace(me.health, gpus=(gpu,)))
    counts = tuple(
        XidCount(gpu.uuid, gpu.pci_bus_id, xid, 1, last, is_settled=False)
        for xid, last in ((31, NOW - 60), (79, NOW - 5))
    )
    probe = sample_probe()
    lost = replace(probe.devices[0], is_lost=True, reading=None)
    text = mesh_exposition(replace(view, hosts=(me,)), replace(probe, devices=(lost,), xids=counts), {})
    assert [value for _, value in series(text, "DCGM_FI_DEV_XID_ERRORS")] == [79.0]
    assert series(text, "DCGM_FI_DEV_SM_CLOCK") == []


def test_a_mig_instance_has_its_memory_under_dcgm_exporters_labels() -> None:
    probe = sample_probe()
    device = probe.devices[0]
    assert device.reading is not None
    instances = (
        MigInstance("MIG-1", 9, 0, "1g.10gb", 9856 << 20, 24 << 20, 9832 << 20),
        MigInstance("MIG-2", 9, 1, "1c.1g.10gb", 9856 << 20, 24 << 20, 9832 << 20),
        MigInstance("MIG-3", 11, 0, "1g.10gb"),
    )
    carved = replace(device, reading=replace(device.reading, mig_instances=instances))
    text = mesh_exposition(sample_view(), replace(probe, devices=(carved,)), {})
    used = {labels.get("GPU_I_ID"): value for labels, value in series(text, "DCGM_FI_DEV_FB_USED")}
    assert used == {None: 300, "9": 24}
    line = next(line for line in text.splitlines() if "GPU_I_ID" in line)
    names = [part.partition("=")[0] for part in line[line.index("{") + 1 : line.index("}")].split(",")]
    assert names[4:8] == ["modelName", "GPU_I_PROFILE", "GPU_I_ID", "Hostname"]


def test_what_a_mig_instance_does_is_a_ratio_under_dcgm_exporters_names_and_a_whole_cards_is_absent() -> None:
    text = mesh_exposition(carved_view(), carved_probe(), {})
    for name, busy in (("GR_ENGINE", 0.996), ("SM", 0.979), ("DRAM", 0.413)):
        told = series(text, f"DCGM_FI_PROF_{name}_ACTIVE")
        assert {labels.get("GPU_I_ID"): value for labels, value in told} == {
            "2": busy,
            "3": 0,
            "9": 0,
            "10": 0,
        }
        assert told[0][0]["GPU_I_PROFILE"] == "3g.40gb"
    assert "DCGM_FI_PROF" not in mesh_exposition(sample_view(), sample_probe(), {})


def test_bandwidth_of_nvlink_is_both_ways_or_nothing() -> None:
    probe = sample_probe()
    device = probe.devices[0]
    assert device.reading is not None
    linked = replace(device, reading=replace(device.reading, nvlink_tx_kib=100, nvlink_rx_kib=20))
    half = replace(device, reading=replace(device.reading, nvlink_tx_kib=100))
    text = mesh_exposition(sample_view(), replace(probe, devices=(linked, half)), {})
    lines = [line for line in text.splitlines() if line.startswith("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{")]
    assert [line.rpartition(" ")[2] for line in lines] == ["120"]


def test_absurd_values_are_counted_by_card_and_not_while_the_driver_hangs() -> None:
    probe = sample_probe()
    devices = (replace(probe.devices[0], num_dropped=2), probe.devices[1])
    text = mesh_exposition(sample_view(), replace(probe, devices=devices), {"absurd_values_total": 7.0})
    assert series(text, "gpumesh_gpu_absurd_values") == [
        ({"UUID": uuid_of(1, 0)}, 2.0),
        ({"UUID": uuid_of(1, 1)}, 0.0),
    ]
    assert series(text, "gpumesh_absurd_values_total") == [({}, 7.0)]
    text = mesh_exposition(sample_view(), replace(probe, devices=devices, is_hung=True), {})
    assert series(text, "gpumesh_gpu_absurd_values") == []


def test_a_resting_card_has_no_series_of_its_own_but_says_since_when() -> None:
    text = mesh_exposition(sample_view(), resting_probe(), {})
    assert [labels["gpu"] for labels, _ in series(text, "DCGM_FI_DEV_GPU_TEMP")] == ["1"]
    assert [value for _, value in series(text, "gpumesh_gpu_resting")] == [1.0, 0.0]
    assert series(text, "gpumesh_gpu_last_read_timestamp_seconds") == [({"UUID": uuid_of(1, 0)}, NOW - 180)]
