"""The prober over simulated cards: deadlines, patience, ends and beginnings of its child."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gpumesh.config import GpuConfig
from gpumesh.daemon.leftovers import prober_name
from gpumesh.daemon.prober import Prober
from gpumesh.errors import ConfigError
from gpumesh.health.devices import Probe

PATIENCE_S = 30.0
"""Far beyond what a slow machine needs."""


class Host:
    """A host with two simulated cards, and what a daemon does with its prober."""

    def __init__(self, folder: Path) -> None:
        self.faults = folder / "faults.toml"
        self.prober = self.make(deadline_s=PATIENCE_S)
        self.fault("")

    def make(self, **options: Any) -> Prober:
        timing = {name: options.pop(name, 0.5) for name in ("deadline_s", "interval_s")}
        gpu = GpuConfig(
            backend="simulated",
            simulated=("rtx-4080-super", "h100"),
            simulated_faults=str(self.faults),
            **timing,
        )
        self.prober = Prober(gpu, host="a", **options)
        return self.prober

    def fault(self, content: str) -> None:
        aside = self.faults.with_suffix(".new")
        aside.write_text(content)
        aside.replace(self.faults)

    async def probe_until(self, is_so: Callable[[Probe], bool]) -> Probe:
        ends_at = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            probe = await self.prober.probe()
            if is_so(probe):
                return probe
            assert asyncio.get_running_loop().time() < ends_at, f"it never came to pass: {probe}"
            await asyncio.sleep(0.02)


@pytest_asyncio.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    made = Host(tmp_path)
    yield made
    made.fault("")
    await made.prober.close()


def is_whole(probe: Probe) -> bool:
    return not probe.error and len(probe.devices) == 2


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_all_cards_the_driver_and_the_bus_are_in_a_probe(host: Host) -> None:
    probe = await host.prober.probe()
    assert probe.error == ""
    assert probe.driver is not None
    assert probe.driver.backend == "simulated"
    assert probe.num_devices == 2
    assert [state.info.name for state in probe.devices if state.info] == [
        "NVIDIA GeForce RTX 4080 SUPER",
        "NVIDIA H100 80GB HBM3",
    ]
    assert probe.pci_addresses == tuple(state.info.pci_bus_id for state in probe.devices if state.info)
    assert probe.duration_s > 0


def name_of(pid: int | None) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


async def test_a_child_is_known_by_its_name_and_its_starters_number(host: Host) -> None:
    await host.prober.probe()
    assert name_of(host.prober.child_pid) == prober_name(os.getpid())


async def test_one_child_answers_all_probes(host: Host) -> None:
    await host.prober.probe()
    first = host.prober.child_pid
    assert first is not None
    assert is_whole(await host.prober.probe())
    assert host.prober.child_pid == first


async def test_device_plugin_221_a_lost_card_leaves_the_others(host: Host) -> None:
    host.fault("[gpu.0]\nlost = true\n")
    probe = await host.prober.probe()
    assert [state.is_lost for state in probe.devices] == [True, False]
    assert probe.devices[1].reading is not None


async def test_a_hung_card_is_told_with_the_call_and_the_cards_that_answered(host: Host) -> None:
    host.make(deadline_s=0.5)
    await host.probe_until(is_whole)
    host.fault("[gpu.1]\nhang = true\n")
    probe = await host.probe_until(lambda probe: probe.is_hung)
    assert probe.call == "gpu 1"
    assert "has not answered" in probe.error
    assert [state.index for state in probe.devices] == [0]
    assert probe.devices[0].reading is not None
    assert probe.driver is not None
    later = await host.probe_until(lambda later: later.hung_for_s > probe.hung_for_s)
    assert later.is_hung


async def test_gpud_117_no_second_child_is_started_behind_a_stuck_one(host: Host) -> None:
    host.make(deadline_s=0.5)
    await host.probe_until(is_whole)
    stuck = host.prober.child_pid
    host.fault("[gpu.0]\nhang = true\n")
    await host.probe_until(lambda probe: probe.is_hung)
    for _ in range(5):
        assert (await host.prober.probe()).is_hung
        assert host.prober.child_pid == stuck


async def test_an_answer_that_comes_late_is_taken_up_again(host: Host) -> None:
    host.make(deadline_s=0.5)
    host.fault("[gpu.0]\nhang = true\n")
    await host.probe_until(lambda probe: probe.is_hung)
    stuck = host.prober.child_pid
    host.fault("")
    probe = await host.probe_until(is_whole)
    assert not probe.is_hung
    assert probe.hung_for_s == 0
    assert host.prober.child_pid == stuck


async def test_a_driver_that_hangs_on_opening_is_under_the_deadline_too(host: Host) -> None:
    host.make(deadline_s=0.5)
    host.fault("driver_hang = true\n")
    probe = await host.probe_until(lambda probe: probe.is_hung)
    assert probe.driver is None
    assert probe.call == "open the driver"
    assert probe.pci_addresses is not None, "what the bus shows is known all the same"


async def test_a_stuck_child_is_asked_to_end_after_patience_and_the_hang_is_still_told(host: Host) -> None:
    host.make(deadline_s=0.5, patience_s=1.0)
    await host.probe_until(is_whole)
    host.fault("[gpu.1]\nhang = true\n")
    probe = await host.probe_until(lambda probe: "SIGTERM" in probe.error)
    assert probe.is_hung
    assert probe.hung_for_s > 1.0
    again = await host.prober.probe()
    assert again.is_hung
    host.fault("")
    assert not (await host.probe_until(is_whole)).is_hung


async def test_readings_that_are_older_than_patience_are_let_go(host: Host) -> None:
    host.make(deadline_s=0.5, patience_s=0.6)
    await host.probe_until(is_whole)
    host.fault("[gpu.1]\nhang = true\n")
    pid = host.prober.child_pid
    assert pid is not None
    probe = await host.probe_until(lambda probe: probe.hung_for_s > 0.6)
    assert [state.reading for state in probe.devices] == [None] * len(probe.devices)


async def test_a_child_that_was_killed_between_two_looks_is_replaced_at_once(host: Host) -> None:
    await host.prober.probe()
    first = host.prober.child_pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert is_whole(await host.prober.probe())
    assert host.prober.child_pid != first


async def test_a_child_that_dies_under_way_is_told_with_its_signal_and_its_call(host: Host) -> None:
    host.make(deadline_s=0.5)
    await host.probe_until(is_whole)
    pid = host.prober.child_pid
    assert pid is not None
    host.fault("[gpu.1]\nhang = true\n")
    await host.probe_until(lambda probe: probe.is_hung)
    os.kill(pid, signal.SIGSEGV)
    probe = await host.probe_until(lambda probe: "SIGSEGV" in probe.error)
    assert "gpu 1" in probe.error
    assert probe.call == "gpu 1"
    assert [state.index for state in probe.devices] == [0]
    assert probe.num_devices is None, "the card that was not got to is not gone"
    host.fault("")
    assert is_whole(await host.probe_until(is_whole))


async def test_nvidia_gpu_exporter_65_the_driver_may_come_later(host: Host) -> None:
    host.fault("driver_absent = true\n")
    probe = await host.prober.probe()
    assert probe.driver is None
    assert probe.error_code == 9
    assert "driver is absent" in probe.error
    assert not probe.is_hung
    host.fault("")
    assert is_whole(await host.probe_until(is_whole))


async def test_a_wrong_faults_file_is_told_and_its_correction_taken_up(host: Host) -> None:
    host.fault("[gpu.0]\nlosst = true\n")
    assert "gpu.0.losst" in (await host.prober.probe()).error
    host.fault("")
    assert is_whole(await host.probe_until(is_whole))


async def test_a_card_that_disappears_lowers_the_count(host: Host) -> None:
    host.fault("[gpu.0]\nmissing = true\n")
    probe = await host.prober.probe()
    assert probe.num_devices == 1
    assert len(probe.pci_addresses or ()) == 2


async def test_nvitop_222_closing_waits_until_the_child_has_let_go(host: Host) -> None:
    await host.prober.probe()
    pid = host.prober.child_pid
    assert pid is not None
    await host.prober.close()
    assert host.prober.child_pid is None
    assert not is_running(pid)
    await host.prober.close()


async def test_closing_asks_a_stuck_child_to_end(host: Host) -> None:
    host.make(deadline_s=0.5)
    host.fault("driver_hang = true\n")
    await host.probe_until(lambda probe: probe.is_hung)
    pid = host.prober.child_pid
    assert pid is not None
    await host.prober.close()
    assert not is_running(pid)


async def test_a_probe_that_is_cancelled_leaves_the_prober_usable(host: Host) -> None:
    host.fault("[gpu.1]\nhang = true\n")
    looking = asyncio.create_task(host.prober.probe())
    await asyncio.sleep(0.5)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    host.fault("")
    assert is_whole(await host.probe_until(is_whole))


def inherited(pid: int) -> list[str]:
    """Which descriptors beyond the standard ones would be passed on to a program that ``pid`` starts."""
    found = []
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        lines = dict(line.split(":", 1) for line in entry.read_text().splitlines() if ":" in line)
        if int(entry.name) > 2 and not int(lines["flags"], 8) & os.O_CLOEXEC:
            found.append(entry.name)
    return found


async def test_nothing_that_the_driver_starts_inherits_the_pipes(host: Host) -> None:
    await host.prober.probe()
    assert host.prober.child_pid is not None
    assert inherited(host.prober.child_pid) == []


async def test_no_descriptor_is_left_behind(host: Host) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counts, names do not matter

    before = descriptors()
    for _ in range(3):
        await host.make(deadline_s=PATIENCE_S).probe()
        await host.prober.close()
    assert descriptors() == before


async def test_an_interpreter_that_cannot_be_started_is_told(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    probe = await host.prober.probe()
    assert "cannot be started" in probe.error
    assert probe.driver is None


async def test_a_child_that_fails_to_start_is_told_in_its_own_words(
    host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "msgpack.py").write_text("raise ImportError('no msgpack for this interpreter')\n")
    monkeypatch.syspath_prepend(tmp_path)
    probe = await host.prober.probe()
    assert "no msgpack for this interpreter" in probe.error
    assert "exit status 1" in probe.error


def test_an_unknown_profile_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match="no such profile"):
        Prober(GpuConfig(backend="simulated", simulated=("rtx-1",)), host="a")


def test_the_child_ends_when_the_daemon_is_killed(tmp_path: Path) -> None:
    (tmp_path / "faults.toml").write_text("driver_hang = true\n")
    script = f"""
        import asyncio
        from gpumesh.config import GpuConfig
        from gpumesh.daemon.prober import Prober

        async def main():
            gpu = GpuConfig(backend="simulated", simulated=("h100",), deadline_s=0.2,
                            simulated_faults={str(tmp_path / "faults.toml")!r})
            prober = Prober(gpu, host="a")
            await prober.probe()
            print(prober.child_pid, flush=True)
            await asyncio.sleep(600)

        asyncio.run(main())
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(item for item in sys.path if item)}
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True, env=environment
    ) as daemon:
        assert daemon.stdout is not None
        child = int(daemon.stdout.readline())
        assert is_running(child)
        # The end of its answers is the end of the process: a pidfd tells without waiting for a reaper.
        watched = os.pidfd_open(child)
        daemon.kill()
        daemon.wait()
    try:
        poller = select.poll()
        poller.register(watched)
        assert poller.poll(PATIENCE_S * 1000)
    finally:
        os.close(watched)
