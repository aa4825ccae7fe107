from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from gpumesh.config import Config, GpuConfig, HostConfig
from gpumesh.daemon import leftovers
from gpumesh.daemon.oneshot import look_once
from gpumesh.health.inventory import Inventory, KnownCard
from tests.daemon.test_leftovers import PROBER, process


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host without an NVIDIA driver whose files are under the folder."""
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text("6.1.0-18-amd64\n")
    return tmp_path


def config(root: Path, *simulated: str, faults: str = "") -> Config:
    gpu = GpuConfig(backend="simulated", simulated=simulated, simulated_faults=faults)
    return Config(host=HostConfig(name="pc01", state_dir=str(root / "state")), gpu=gpu)


def test_one_look_tells_what_the_daemon_would_and_keeps_nothing(root: Path) -> None:
    document = look_once(config(root, "h100"), root)
    assert (document["name"], document["verdict"], document["state"]) == ("pc01", "healthy", "ready")
    assert [gpu["verdict"] for gpu in document["gpus"]] == ["healthy"]
    assert document["gpus"][0]["reading"]["temperature_c"] > 20
    assert document["kernel"] == "6.1.0-18-amd64"
    assert not (root / "state").exists()


def test_the_kept_inventory_tells_of_a_lost_card_and_is_left_as_it_was(root: Path) -> None:
    (root / "state").mkdir()
    kept = Inventory().with_cards([KnownCard("GPU-gone", "NVIDIA H100", "00000000:41:00.0", 1)])
    path = root / "state/inventory.json"
    path.write_text(json.dumps(kept.to_json()))
    before = path.read_bytes()
    document = look_once(config(root, "h100"), root)
    lost = next(gpu for gpu in document["gpus"] if gpu["uuid"] == "GPU-gone")
    assert lost["verdict"] == "unhealthy"
    assert path.read_bytes() == before


def test_a_damaged_inventory_is_told_and_not_set_aside(root: Path) -> None:
    (root / "state").mkdir()
    path = root / "state/inventory.json"
    path.write_text("{")
    document = look_once(config(root, "h100"), root)
    assert "inventory" in [finding["check"] for finding in document["findings"]]
    assert path.read_text() == "{"


def test_no_second_look_is_started_behind_a_stuck_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gpud#117: a check that runs each minute left one more process in state D each time."""
    monkeypatch.setattr(leftovers, "SECOND_GLANCE_S", 0.0)
    process(root, 50, *PROBER, "40", parent=1)
    document = look_once(config(root, "h100"), root)
    assert document["verdict"] == "unhealthy"
    assert document["findings"][0]["reason"].startswith("driver not answering since ")
    assert "process 50" in document["probe"]["error"]
    assert document["probe"]["num_devices"] is None


def test_an_xid_in_the_kernels_log_is_seen_in_one_look(root: Path) -> None:
    address = look_once(config(root, "h100"), root)["gpus"][0]["pci_bus_id"]
    place = f"{address[4:-2]}".lower()
    (root / "dev").mkdir()
    (root / "dev/kmsg").write_text(
        f"4,1,{int(time.monotonic() * 1e6)},-;NVRM: Xid (PCI:{place}): 79, GPU has fallen off the bus.\n"
    )
    document = look_once(config(root, "h100"), root)
    assert [finding["check"] for finding in document["gpus"][0]["findings"]] == ["xid"]
    assert document["gpus"][0]["verdict"] == "unhealthy"
