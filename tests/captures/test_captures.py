"""What gpumesh shows of each captured card, idle and loaded, is what nvidia-smi said of it, value by value.

Two ways lead to it: the NVML driver through both ends of NVIDIA's bindings, over the fake library with the
card's profile, and the simulated driver with its own. Three things are shown: ``/v1/status``, ``/metrics``
and ``gpumesh status``.
"""

from __future__ import annotations

import io
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpumesh.cli.status import draw_status
from gpumesh.cli.terminal import Terminal
from gpumesh.config import Config
from gpumesh.health.devices import Probe
from gpumesh.health.simulated import SimulatedDriver
from gpumesh.status.metrics import mesh_exposition
from tests.captures.smi import Capture, captures
from tests.captures.values import (
    MIB,
    NOT_PRINTED,
    cuda_version,
    device_values,
    driver_version,
    process_values,
    reading_values,
)
from tests.fakes.nvml.fixtures import OLDEST_BINDINGS
from tests.fakes.nvml.state import FakeDriver
from tests.samples.fleet import NOW
from tests.samples.site import Shown, Site

PROFILES = {
    "nvidia-geforce-rtx-2080-super": "rtx-2080-super",
    "nvidia-geforce-rtx-4080-super": "rtx-4080-super",
    "nvidia-h100-80gb-hbm3": "h100",
    "nvidia-h200": "h200",
}
UNKNOWN_TO_THE_OLDEST_BINDINGS = {"temperature_margin_c", "addressing_mode"}
SERIES: Mapping[str, tuple[str, int]] = {
    "SM_CLOCK": ("sm_clock_mhz", 1),
    "MEM_CLOCK": ("memory_clock_mhz", 1),
    "GPU_TEMP": ("temperature_c", 1),
    "MEMORY_TEMP": ("temperature_memory_c", 1),
    "POWER_USAGE": ("power_w", 1),
    "POWER_MGMT_LIMIT": ("power_limit_w", 1),
    "ENFORCED_POWER_LIMIT": ("power_limit_enforced_w", 1),
    "PCIE_REPLAY_COUNTER": ("pcie_replays", 1),
    "PCIE_LINK_GEN": ("pcie_gen", 1),
    "PCIE_LINK_WIDTH": ("pcie_width", 1),
    "GPU_UTIL": ("utilization_gpu_percent", 1),
    "MEM_COPY_UTIL": ("utilization_memory_percent", 1),
    "ENC_UTIL": ("utilization_encoder_percent", 1),
    "DEC_UTIL": ("utilization_decoder_percent", 1),
    "FAN_SPEED": ("fan_percent", 1),
    "FB_FREE": ("memory_free_bytes", MIB),
    "FB_USED": ("memory_used_bytes", MIB),
    "FB_RESERVED": ("memory_reserved_bytes", MIB),
    "BAR1_TOTAL": ("bar1_total_bytes", MIB),
    "BAR1_USED": ("bar1_used_bytes", MIB),
    "CLOCKS_EVENT_REASONS": ("clocks_event_reasons", 1),
    "ECC_SBE_VOL_TOTAL": ("ecc_sbe_volatile", 1),
    "ECC_DBE_VOL_TOTAL": ("ecc_dbe_volatile", 1),
    "ECC_SBE_AGG_TOTAL": ("ecc_sbe_aggregate", 1),
    "ECC_DBE_AGG_TOTAL": ("ecc_dbe_aggregate", 1),
    **{
        f"ECC_{short}_{span[:3].upper()}_{series}": (f"ecc_{place}_{kind}_{span}", 1)
        for series, place in (("SRM", "sram"), ("DEV", "dram"))
        for short, kind in (("SBE", "corrected"), ("DBE", "uncorrected"))
        for span in ("volatile", "aggregate")
    },
    "THRESHOLD_SRM": ("ecc_sram_threshold_exceeded", 1),
    "RETIRED_SBE": ("retired_sbe", 1),
    "RETIRED_DBE": ("retired_dbe", 1),
    "RETIRED_PENDING": ("retired_pending", 1),
    "UNCORRECTABLE_REMAPPED_ROWS": ("remapped_uncorrectable", 1),
    "CORRECTABLE_REMAPPED_ROWS": ("remapped_correctable", 1),
    "ROW_REMAP_FAILURE": ("remap_failed", 1),
    "POWER_VIOLATION": ("power_violation_ns", 1),
    "SYNC_BOOST_VIOLATION": ("sync_boost_violation_ns", 1),
    "PSTATE": ("performance_state", 1),
}
"""dcgm-exporter's series → the captured value, and its unit in that of the series."""
SERIES_NOT_PRINTED = {"TOTAL_ENERGY_CONSUMPTION", "THERMAL_VIOLATION"}


class Still(random.Random):
    """Lets no reading of a simulated card wobble."""

    def choice(self, seq: Any) -> Any:
        return 0

    def uniform(self, a: float, b: float) -> float:
        return 1.0


class Case:
    """One capture under one load, and what gpumesh shows of that card."""

    def __init__(self, capture: Capture, load: str, shown: Shown, lacks: set[str]) -> None:
        self.capture = capture
        self.smi = capture.query(load)
        (self.gpu,) = self.smi.gpus
        self.shown = shown
        self.device = device_values(self.gpu)
        self.reading = {name: item for name, item in reading_values(self.gpu).items() if name not in lacks}
        self.processes = [process_values(item) for item in self.gpu.processes]


def by_nvml(cards: FakeDriver, root: Path, capture: Capture, load: str) -> Shown:
    """Look at a card of the fake library, with its processes in /proc."""
    cards.add_gpu(PROFILES[capture.name.split("__")[1]], load="loaded" if load == "load" else load)
    for item in capture.query(load).gpus[0].processes:
        values = process_values(item)
        (root / f"proc/{values['pid']}").mkdir(parents=True)
        (root / f"proc/{values['pid']}/comm").write_text(f"{values['name']}\n")
    site = Site(cards, root)
    site.look()
    site.close()
    return site


def by_simulation(root: Path, capture: Capture, load: str) -> Shown:
    """Look at a simulated card."""
    faults = root / "faults.toml"
    faults.write_text("[gpu.0]\nbusy = true\n" if load == "load" else "")
    profile = PROFILES[capture.name.split("__")[1]]
    driver = SimulatedDriver([profile], host="a", random=Still(), faults=faults, clock=lambda: 1.0)
    shown = Shown(Config())
    info, state = driver.open(), driver.probe_device(0)
    shown.judge(Probe(driver=info, devices=(state,), num_devices=1, pci_addresses=driver.pci_addresses()))
    return shown


@pytest.fixture(params=["nvml", "simulated"])
def way(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=["idle", "load"])
def load(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=captures(), ids=lambda capture: capture.name.split("__")[1])
def case(request: pytest.FixtureRequest, way: str, load: str, tmp_path: Path) -> Iterator[Case]:
    capture: Capture = request.param
    if way == "simulated":
        yield Case(capture, load, by_simulation(tmp_path, capture, load), set())
        return
    cards: FakeDriver = request.getfixturevalue("cards")
    yield Case(capture, load, by_nvml(cards, tmp_path, capture, load), set())


def differences(shown: Mapping[str, Any], captured: Mapping[str, Any]) -> list[str]:
    """What is shown otherwise than it was captured, dropped, or made up."""
    names = (shown.keys() | captured.keys()) - NOT_PRINTED
    return [
        f"{name}: shown {shown.get(name)!r}, captured {captured.get(name)!r}"
        for name in sorted(names)
        if shown.get(name) != captured.get(name)
    ]


def shown_values(shown: Shown) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The card, its device and its reading in the status document."""
    (gpu,) = shown.status()["gpus"]
    return gpu, dict(gpu["device"]), dict(gpu["reading"])


def test_status_shows_the_card_as_it_was_captured(case: Case) -> None:
    gpu, device, reading = shown_values(case.shown)
    total = case.device["memory_total_bytes"]
    free = case.reading["memory_free_bytes"]
    assert isinstance(total, int)
    assert isinstance(free, int)
    assert (gpu["model"], gpu["index"], gpu["verdict"]) == (case.gpu.get("Product Name"), 0, "healthy")
    assert gpu["memory_bytes"] == total
    assert gpu["memory_free_bytes"] == free // (total // 16) * (total // 16), "told in sixteenths"
    assert gpu["busy"] == any(
        item["kind"] == "compute" or (item["kind"] == "compute+graphics" and "kwin" not in item["name"])
        for item in case.processes
    )
    # Serial numbers are masked in the captures: whether there is one is not.
    assert (device.pop("serial", None) is None) == (case.gpu.get("Serial Number") is None)
    assert device.pop("num_nvlinks", None) == case.capture.num_nvlinks
    assert reading.pop("nvlinks", None) == (
        None if case.capture.num_nvlinks is None else [True] * case.capture.num_nvlinks
    )
    reading.pop("processes")
    assert differences(device, case.device) == []
    assert differences(reading, case.reading) == []


def test_status_shows_the_processes_as_they_were_captured(case: Case, way: str) -> None:
    _, _, reading = shown_values(case.shown)
    shown = [
        {key: item[key] for key in ("pid", "kind", "name", "memory_bytes")} for item in reading["processes"]
    ]
    captured = [dict(item) for item in case.processes]
    if way == "simulated":
        for item in shown + captured:
            del item["pid"]  # made up

    def order(item: Mapping[str, Any]) -> list[str]:
        return [str(value) for value in item.values()]

    assert sorted(shown, key=order) == sorted(captured, key=order)


def test_status_shows_the_driver_as_it_was_captured(case: Case) -> None:
    document = case.shown.status()
    for shown in (document, document["probe"]):
        assert shown["driver_version"] == driver_version(case.smi)
        assert shown["cuda_version"] == cuda_version(case.smi)
    # nvidia-smi leaves out CUDA's series in front and the patch behind.
    library = document["probe"]["library_version"]
    assert library.partition(".")[2].startswith(case.capture.nvml_version)


def test_metrics_show_the_card_as_it_was_captured(case: Case) -> None:
    text = mesh_exposition(case.shown.view(), case.shown.latest, {})
    samples = {
        # The parser gives counters an ending that dcgm-exporter's have not.
        sample.name.removeprefix("DCGM_FI_DEV_").removesuffix("_total"): sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("DCGM_FI_DEV_")
    }
    captured = {
        name: case.reading[value] / unit  # type: ignore[operator] # only numbers have series
        for name, (value, unit) in SERIES.items()
        if value in case.reading
    }
    shown = {name: sample.value for name, sample in samples.items() if name not in SERIES_NOT_PRINTED}
    assert differences(shown, captured) == []
    for sample in samples.values():
        assert sample.labels["modelName"] == case.gpu.get("Product Name")
        assert sample.labels["DCGM_FI_DRIVER_VERSION"] == driver_version(case.smi)
        assert (sample.labels["gpu"], sample.labels["device"]) == ("0", "nvidia0")


def test_the_command_line_shows_the_card_as_it_was_captured(case: Case, way: str) -> None:
    out = io.StringIO()
    draw_status(Terminal(out, out, None, False), case.shown.status(), NOW)
    lines = out.getvalue().splitlines()
    assert f"  driver    {driver_version(case.smi)}, CUDA {cuda_version(case.smi)}" in lines
    heading = next(index for index, line in enumerate(lines) if line.lstrip().startswith("GPU  MODEL"))
    cells = dict(
        zip(
            re.split(r"  +", lines[heading].strip()),
            re.split(r"  +", lines[heading + 1].strip()),
            strict=True,
        )
    )
    values: dict[str, Any] = {**case.device, **case.reading}
    gib = 1 << 30
    expected = {
        "GPU": "0",
        "MODEL": re.sub(r"^NVIDIA (GeForce )?", "", str(case.gpu.get("Product Name"))),
        "VERDICT": "healthy",
        "TEMP": f"{values['temperature_c']} °C",
        "POWER": f"{values['power_w']:.0f}/{values['power_limit_w']:.0f} W",
        "UTIL": f"{values['utilization_gpu_percent']} %",
        "FREE": f"{values['memory_free_bytes'] / gib:.1f}/{values['memory_total_bytes'] / gib:.1f} GiB",
        "CLOCK": f"{values['sm_clock_mhz']} MHz",
        "PCIE": f"Gen {values['pcie_gen']} x{values['pcie_width']}",
    }
    if way == "nvml":
        expected["PCI"] = case.gpu.address
    assert {name: cells[name] for name in expected} == expected


def test_a_value_that_is_changed_dropped_or_made_up_is_seen(case: Case) -> None:
    """The comparison above cannot pass by comparing nothing."""
    _, device, reading = shown_values(case.shown)
    for shown, captured in ((device, case.device), (reading, case.reading)):
        kept = {name: shown[name] for name in captured}
        assert differences(kept, captured) == []
        for name, value in captured.items():
            other = f"{value}?" if isinstance(value, str) else value + 1
            assert len(differences({**kept, name: other}, captured)) == 1
            assert len(differences({key: kept[key] for key in kept if key != name}, captured)) == 1
        assert len(differences({**kept, "made_up": 0}, captured)) == 1


@pytest.mark.parametrize("capture", captures(), ids=lambda capture: capture.name.split("__")[1])
def test_through_the_oldest_bindings_only_what_they_have_no_call_for_is_absent(
    cards: FakeDriver, binding: str, tmp_path: Path, capture: Capture
) -> None:
    lacks = UNKNOWN_TO_THE_OLDEST_BINDINGS if binding == OLDEST_BINDINGS else set()
    for load in ("idle", "load"):
        case = Case(capture, load, by_nvml(cards, tmp_path / load, capture, load), lacks)
        _, device, reading = shown_values(case.shown)
        assert differences({name: device.get(name) for name in case.device}, case.device) == []
        del reading["processes"]
        reading.pop("nvlinks", None)
        assert differences(reading, case.reading) == []
        cards.remove_gpu(0)
