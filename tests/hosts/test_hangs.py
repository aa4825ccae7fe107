"""Real daemons behind a driver that does not answer: killed meanwhile, and started again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gpumesh.cli.client import ControlClient
from gpumesh.cli.demofleet import DemoFleet, DemoHost
from gpumesh.config.keyring import new_key
from gpumesh.daemon.leftovers import prober_name
from gpumesh.errors import UnreachableError
from tests.fakes.nvml import build
from tests.fakes.nvml.state import FakeDriver

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]

CALL = "nvmlDeviceGetTemperature on gpu 0"


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    made = FakeDriver(tmp_path / "driver", host="a")
    made.add_gpu("h100")
    monkeypatch.setenv("GPUMESH_FAKE_NVML", str(made.path))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(build.library()))
    return made


@pytest.fixture
def fleet(tmp_path: Path, driver: FakeDriver) -> Iterator[DemoFleet]:
    made = DemoFleet(tmp_path / "fleet")
    host = made.add("a", ())
    key_file = host.directory / "fleet.key"
    key_file.write_text(new_key() + "\n")
    key_file.chmod(0o600)
    yield made
    driver.clear_faults()
    made.stop()


def use_nvml(host: DemoHost, deadline: str) -> None:
    """Have the host ask the driver's library, and wait for its answers for so long."""
    before, _, rest = host.config_path.read_text().partition("[gpu]\n")
    after = rest[rest.index("[http]") :]
    host.config_path.write_text(
        f'{before}[gpu]\nbackend = "nvml"\ninterval = "1s"\ndeadline = "{deadline}"\n{after}'
    )


def until(holds: Callable[[], bool], what: Callable[[], object], within_s: float = 60.0) -> None:
    give_up_at = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < give_up_at, f"never came: {what()}"
        time.sleep(0.05)


def status(host: DemoHost) -> dict[str, Any]:
    """What the host says of itself; empty while it does not answer."""
    try:
        document: dict[str, Any] = host.client().get("/v1/status")
    except UnreachableError:
        return {}
    return document


def hang_of(document: dict[str, Any]) -> dict[str, Any] | None:
    findings = document.get("host", document).get("findings", ())
    return next((item for item in findings if item["check"] == "driver"), None)


def test_nvsentinel_1748_a_hang_outlives_every_kill_and_is_told_from_the_start_until_a_look_succeeds(
    fleet: DemoFleet, driver: FakeDriver
) -> None:
    """The monitor was restarted 49 times while its driver hung, and the fault was never told."""
    host = fleet.hosts["a"]
    kept = host.directory / "state/hang.json"
    driver.hang("nvmlDeviceGetTemperature")
    use_nvml(host, "2s")
    fleet.start("a")
    until(lambda: hang_of(status(host)) is not None, lambda: status(host))
    told = hang_of(status(host))
    assert told is not None
    assert json.loads(kept.read_text())["call"] == CALL, "what is told is on disk"
    first = kept.read_bytes()
    use_nvml(host, "120s")  # from here on no look ends soon enough to tell it
    for _ in range(2):
        fleet.kill("a")
        assert kept.read_bytes() == first
        fleet.start("a")
        until(lambda: status(host) != {}, host.log_path.read_text)
        again = hang_of(status(host))
        assert again is not None, "told by the first answer"
        assert CALL in again["reason"]
        began = [datetime.fromisoformat(str(item["since"])) for item in (told, again)]
        assert abs((began[0] - began[1]).total_seconds()) < 2.0
    driver.clear_faults()
    until(lambda: hang_of(status(host)) is None and not kept.exists(), lambda: status(host))


def test_a_driver_is_let_go_of_on_request_and_taken_up_again(fleet: DemoFleet, driver: FakeDriver) -> None:
    """What is open cannot be unbound, reloaded or upgraded (dcgm-exporter#716)."""
    host = fleet.hosts["a"]
    driver.put_under(0, "loaded")
    use_nvml(host, "30s")
    fleet.start("a")
    until(lambda: verdicts(host) == ["healthy"], lambda: status(host))
    assert probers(fleet) != []
    control = ControlClient(str(host.directory / "ctl"))
    assert control.post("/v1/release", {"for_s": 600, "reason": "driver 580"})["released"] is True
    assert probers(fleet) == [], "it is let go of when the answer comes, whatever runs"
    assert verdicts(host) == ["unknown"]
    assert "driver 580" in json.dumps(status(host))
    control.post("/v1/unrelease", {})
    until(lambda: verdicts(host) == ["healthy"], lambda: status(host))


def verdicts(host: DemoHost) -> list[str]:
    return [gpu["verdict"] for gpu in status(host).get("gpus", ())]


def probers(fleet: DemoFleet) -> list[str]:
    """The processes that the daemon has started and that are named as probers are."""
    daemon = fleet._processes["a"].pid
    return [path.name for path in Path("/proc").glob("[0-9]*") if name_of(path) == prober_name(daemon)]


def name_of(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return ""
