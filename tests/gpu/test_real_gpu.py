"""Every value that gpumesh reads through the real driver, held against nvidia-smi on the same machine.

``make test-gpu`` runs it; without a card it is skipped, saying why. Nothing is changed on the card.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gpumesh.config import Config, GpuConfig
from gpumesh.daemon.prober import Prober
from gpumesh.health.devices import Probe
from tests.captures.smi import Smi, parse
from tests.captures.values import cuda_version, driver_version, process_values
from tests.gpu.compare import differences, mig_differences, process_differences
from tests.samples.site import Shown

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

ATTEMPTS = 5
"""Looks until one finds the cards at rest between nvidia-smi's two; what stands must agree in each."""
SMI_S = 60.0


def smi(*arguments: str) -> str:
    command = ["nvidia-smi", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=SMI_S).stdout


def reason_to_skip() -> str:
    """Why there is nothing to compare with on this machine; empty if there is."""
    if shutil.which("nvidia-smi") is None:
        return "no NVIDIA GPU to test with: nvidia-smi is not installed"
    try:
        done = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=SMI_S
        )
    except subprocess.TimeoutExpired:
        return f"no NVIDIA GPU to test with: nvidia-smi has not answered for {SMI_S:g} s"
    if done.returncode != 0 or "GPU 0" not in done.stdout:
        said = (done.stdout + done.stderr).strip().splitlines()
        return f"no NVIDIA GPU to test with: nvidia-smi says {said[-1] if said else 'nothing'}"
    return ""


async def look() -> Probe:
    """Look as the daemon does, through the prober's child: no library of another test is in it."""
    prober = Prober(GpuConfig(deadline_s=60.0), host="a")
    try:
        return await prober.probe()
    finally:
        await prober.close()


class Comparison:
    """One look with nvidia-smi before and after it."""

    def __init__(self) -> None:
        self.before: Smi = parse(smi("-q"))
        self.shown = Shown(Config())
        self.shown.judge(asyncio.run(look()))
        self.after: Smi = parse(smi("-q"))
        self.status = self.shown.status()

    def cards(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Place in nvidia-smi's output → the card in the status document."""
        addresses = [gpu.address.upper() for gpu in self.before.gpus]
        for card in self.status["gpus"]:
            yield addresses.index(card["pci_bus_id"]), card

    def differences(self) -> list[str]:
        """What differs on any card."""
        found: list[str] = []
        for place, card in self.cards():
            before, after = self.before.gpus[place], self.after.gpus[place]
            device, reading = card["device"], card["reading"]
            told = differences(device, reading, before, after)
            listed = [[process_values(item) for item in gpu.processes] for gpu in (before, after)]
            if reading.get("processes") is not None:
                told += process_differences(reading["processes"], *listed)
            told += mig_differences(reading.get("mig_instances") or (), before)
            found += [f"gpu {place}: {item}" for item in told]
        return found


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    reason = reason_to_skip()
    if reason:
        pytest.skip(reason)
    smi("-q")  # wakes what sleeps, so that the first comparison finds it awake
    return Comparison()


def test_all_cards_are_there_and_were_read(comparison: Comparison) -> None:
    assert comparison.shown.latest.error == ""
    assert [state.error for state in comparison.shown.latest.devices] == [""] * len(comparison.before.gpus)
    assert len(list(comparison.cards())) == len(comparison.before.gpus)


def test_the_driver_is_that_of_nvidia_smi(comparison: Comparison) -> None:
    assert comparison.status["driver_version"] == driver_version(comparison.before)
    assert comparison.status["cuda_version"] == cuda_version(comparison.before)
    library = re.search(r"^NVML version +: (\S+)$", smi("--version"), re.MULTILINE)
    if library:
        told = comparison.status["probe"]["library_version"]
        assert told.partition(".")[2].startswith(library[1])


def test_who_the_cards_are_is_as_nvidia_smi_says(comparison: Comparison) -> None:
    fields = "pci.bus_id,index,name,uuid,serial,compute_cap"
    rows = [line.split(", ") for line in smi(f"--query-gpu={fields}", "--format=csv,noheader").splitlines()]
    for address, index, name, uuid, serial, capability in rows:
        card = next(card for _, card in comparison.cards() if card["pci_bus_id"] == address.upper())
        assert (card["index"], card["model"], card["uuid"]) == (int(index), name, uuid)
        assert card["capability"] == capability
        assert card["device"].get("serial") == (None if "N/A" in serial else serial)


def test_links_are_up_where_nvidia_smi_says_so(comparison: Comparison) -> None:
    for place, card in comparison.cards():
        done = subprocess.run(
            ["nvidia-smi", "nvlink", "-s", "-i", str(place)],
            capture_output=True,
            text=True,
            check=False,
            timeout=SMI_S,
        )
        num_up = len(re.findall(r"^\s+Link \d+: [\d.]+ GB/s", done.stdout, re.MULTILINE))
        assert (card["reading"].get("nvlinks") or []).count(True) == num_up


def test_every_value_is_as_nvidia_smi_says(comparison: Comparison) -> None:
    found = comparison.differences()
    for _ in range(ATTEMPTS - 1):
        if not found:
            break
        found = Comparison().differences()
    print(f"compared: {', '.join(card['model'] for _, card in comparison.cards())}")
    if found:
        pytest.fail("\n".join(found))
