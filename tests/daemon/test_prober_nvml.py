"""The prober over NVML: the real binding in a real child, and a driver library that fails as drivers do."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
import pytest_asyncio

from gpumesh.config import GpuConfig
from gpumesh.daemon.prober import Prober
from gpumesh.health.devices import XidEvent
from tests.daemon.nvmlhost import PATIENCE_S, Host, hosted, is_whole, temperatures
from tests.fakes.nvml import build
from tests.requirements import lacks
from tests.samples.pci import put_on_bus

host = pytest_asyncio.fixture(hosted, name="host")


async def test_four_kinds_of_cards_are_read(host: Host) -> None:
    host.install()
    for profile in ("rtx-2080-super", "rtx-4080-super", "h100", "h200"):
        host.driver.add_gpu(profile)
    probe = await host.prober.probe()
    assert is_whole(probe)
    assert temperatures(probe) == [33, 43, 41, 28]
    assert probe.driver is not None
    assert probe.driver.driver_version == "610.57.04"
    host.driver.set(2, "temperature_c", 77)
    assert temperatures(await host.prober.probe()) == [33, 43, 77, 28]


async def test_open_gpu_kernel_modules_446_a_call_that_blocks_is_named_and_bounded(host: Host) -> None:
    host.install()
    host.make()
    for _ in range(3):
        host.driver.add_gpu("h100")
    await host.probe_until(is_whole)
    host.driver.hang("nvmlDeviceGetPowerUsage", slot=1)
    probe = await host.probe_until(lambda probe: probe.is_hung)
    assert probe.call == "nvmlDeviceGetPowerUsage on gpu 1"
    assert [state.index for state in probe.devices] == [0]
    stuck = host.prober.child_pid
    host.driver.clear_faults()
    assert not (await host.probe_until(is_whole)).is_hung
    assert host.prober.child_pid == stuck


async def test_go_nvml_152_initialisation_that_hangs_is_under_the_deadline(host: Host) -> None:
    host.install()
    host.make()
    host.driver.add_gpu()
    host.driver.fault("init hang")
    probe = await host.probe_until(lambda probe: probe.is_hung)
    assert probe.call == "nvmlInit"
    assert probe.driver is None
    host.driver.clear_faults()
    assert is_whole(await host.probe_until(is_whole))


async def test_a_child_that_does_not_heed_sigterm_is_left_and_never_doubled(host: Host) -> None:
    host.install()
    host.make(patience_s=1.0)
    host.driver.add_gpu()
    await host.probe_until(is_whole)
    stuck = host.prober.child_pid
    assert stuck is not None
    host.driver.hang("nvmlDeviceGetTemperature", hard=True)
    await host.probe_until(lambda probe: probe.hung_for_s > 2.0)
    for _ in range(3):
        assert (await host.prober.probe()).is_hung
        assert host.prober.child_pid == stuck
    os.kill(stuck, 0)
    host.driver.clear_faults()
    # Out of the call it heeds the SIGTERM of before; a new one takes over.
    assert is_whole(await host.probe_until(is_whole))


async def test_gpud_117_a_run_that_starts_waits_for_the_stuck_child_of_the_one_before(
    host: Host, tmp_path: Path
) -> None:
    host.install()
    host.driver.add_gpu()
    (tmp_path / "proc").symlink_to("/proc")
    host.make(deadline_s=PATIENCE_S, root=tmp_path)
    # Stuck probers have this name, with the number of a starter that is not their parent any more.
    take_name = "import ctypes; ctypes.CDLL(None).prctl(15, b'gpumesh-1', 0, 0, 0); print(flush=True)"
    idle = f"{take_name}; import time; time.sleep(600)"
    left = await asyncio.create_subprocess_exec(sys.executable, "-c", idle, stdout=asyncio.subprocess.PIPE)
    assert left.stdout is not None
    await left.stdout.readline()
    try:
        probe = await host.prober.probe()
        assert probe.is_hung
        assert f"process {left.pid}" in probe.error
        assert host.prober.child_pid is None, "none is started behind it"
        assert (await host.prober.probe()).is_hung
    finally:
        left.kill()
        await left.wait()
    assert is_whole(await host.prober.probe()), "it has come loose"


async def test_a_child_that_heeds_nothing_is_killed_only_long_after_it_was_asked(host: Host) -> None:
    host.install()
    gpu = GpuConfig(deadline_s=1.0, interval_s=0.5)
    host.prober = Prober(gpu, host="a", patience_s=1.0, kill_after_s=1.0)
    host.driver.add_gpu()
    host.driver.hang("nvmlDeviceGetTemperature", hard=True)
    probe = await host.probe_until(lambda probe: "SIGKILL" in probe.error)
    assert probe.is_hung
    assert probe.hung_for_s > 2.0
    assert "nvmlDeviceGetTemperature" in probe.error


async def test_a_slow_driver_within_the_deadline_is_only_slow(host: Host) -> None:
    host.install()
    host.driver.add_gpu()
    host.driver.delay("nvmlDeviceGetTemperature", 0.3)
    probe = await host.prober.probe()
    assert is_whole(probe)
    assert probe.duration_s >= 0.3


async def test_a_driver_slower_than_the_deadline_is_taken_up_when_it_answers(host: Host) -> None:
    host.install()
    host.make(deadline_s=1.0)
    host.driver.add_gpu()
    host.driver.delay("nvmlDeviceGetTemperature", 1.5)
    probe = await host.probe_until(lambda probe: probe.is_hung)
    assert "nvmlDeviceGetTemperature" in probe.call
    host.driver.clear_faults()
    assert is_whole(await host.probe_until(is_whole))


@pytest.mark.parametrize(
    "missing", [build.DRIVER_470_LACKS, build.DRIVER_535_LACKS], ids=["driver 470", "driver 535"]
)
async def test_gpud_1183_what_an_old_driver_lacks_is_absent_and_kills_nothing(
    host: Host, missing: tuple[str, ...]
) -> None:
    host.install(missing)
    host.driver.add_gpu("h100", load="loaded")
    probe = await host.prober.probe()
    assert is_whole(probe)
    (state,) = probe.devices
    assert state.reading is not None
    assert state.reading.temperature_c == 59
    assert state.reading.clocks_event_reasons == 0, "the older name of the call is still there"
    if "nvmlDeviceGetMemoryInfo_v2" in missing:
        assert state.reading.memory_reserved_bytes is None
        assert state.reading.memory_used_bytes == (19818 + 479) << 20
    else:
        assert state.reading.memory_used_bytes == 19818 << 20
    assert state.reading.processes is not None or "nvmlDeviceGetComputeRunningProcesses_v3" in missing


async def test_nvsentinel_684_a_count_that_drops_is_told(host: Host) -> None:
    host.install()
    for _ in range(3):
        host.driver.add_gpu("h100")
    assert (await host.prober.probe()).num_devices == 3
    host.driver.limit_count(2)
    probe = await host.prober.probe()
    assert probe.num_devices == 2
    assert len(probe.devices) == 2


@pytest.mark.parametrize(
    ("code", "hint"), [(9, "modprobe"), (18, "reload the kernel modules or reboot"), (999, "unknown error")]
)
async def test_device_plugin_221_a_driver_that_refuses_says_what_to_do_and_is_well_again_by_itself(
    host: Host, code: int, hint: str
) -> None:
    host.install()
    host.driver.add_gpu()
    host.driver.fail_init(code)
    probe = await host.prober.probe()
    assert probe.driver is None
    assert probe.error_code == code
    assert hint in probe.error
    assert not probe.is_hung
    host.driver.clear_faults()
    assert is_whole(await host.probe_until(is_whole))


async def test_a_driver_that_is_not_loaded_yet_is_found_when_it_is(host: Host) -> None:
    host.install()
    probe = await host.prober.probe()
    assert probe.error_code == 9
    same = host.prober.child_pid
    assert same is not None
    host.driver.add_gpu()
    assert is_whole(await host.probe_until(is_whole))
    assert host.prober.child_pid == same


async def test_nvidia_gpu_exporter_65_a_library_that_is_installed_later_is_found(host: Host) -> None:
    host.driver.add_gpu()
    probe = await host.prober.probe()
    if probe.error_code != 12:
        lacks("this machine has a libnvidia-ml.so.1 of its own")
    assert "libnvidia-ml.so.1 is not on this host" in probe.error
    assert host.prober.child_pid is None, "no process waits for what only a fresh one can find"
    host.install()
    assert is_whole(await host.prober.probe()), "what is installed is noticed without waiting"


async def test_gpud_1180_an_unknown_error_of_one_handle_leaves_the_rest_at_work(host: Host) -> None:
    host.install()
    for _ in range(3):
        host.driver.add_gpu("h100")
    await host.prober.probe()
    uuid = host.driver.get(1, "uuid")
    host.driver.fail_handle(1, 999)
    probe = await host.prober.probe()
    assert [state.is_lost for state in probe.devices] == [False, True, False]
    assert probe.devices[1].info is not None
    assert probe.devices[1].info.uuid == uuid
    host.driver.clear_faults()
    assert temperatures(await host.prober.probe()) == [41, 41, 41]


async def test_what_the_driver_prints_does_not_disturb_the_answers(host: Host) -> None:
    host.install()
    host.driver.add_gpu()
    await host.prober.probe()
    host.driver.path.write_text("no statement of the file\n")
    assert (await host.prober.probe()).error
    host.driver.write()
    assert is_whole(await host.probe_until(is_whole))


async def test_an_xid_is_handed_out_exactly_once_though_the_look_that_brought_it_hung(host: Host) -> None:
    host.install()
    host.make()
    for _ in range(2):
        host.driver.add_gpu("h100")
    await host.probe_until(is_whole)
    host.driver.xid(0, 31)
    host.driver.hang("nvmlDeviceGetPowerUsage", slot=1)
    told = [await host.probe_until(lambda probe: probe.is_hung)]
    told += [await host.prober.probe() for _ in range(3)]
    host.driver.clear_faults()
    told.append(await host.probe_until(is_whole))
    address = str(host.driver.get(0, "pci_bus_id"))
    assert [event for probe in told for event in probe.xid_events] == [XidEvent(address, 31)]


async def test_beszel_1522_a_card_that_sleeps_since_before_the_start_is_not_touched(
    host: Host, tmp_path: Path
) -> None:
    host.install()
    host.driver.add_gpu(pci_bus_id="00000000:01:00.0")
    host.driver.add_gpu(pci_bus_id="00000000:02:00.0")
    put_on_bus(tmp_path, "0000:01:00.0", "suspended")
    put_on_bus(tmp_path, "0000:02:00.0", "active")
    host.driver.hang("*", slot=0)
    host.driver.fault("gpu 0 handle hang")
    host.make(deadline_s=PATIENCE_S, root=tmp_path)
    probe = await host.prober.probe()
    assert [(state.is_resting, state.info is None) for state in probe.devices] == [
        (True, True),
        (False, False),
    ]
    host.driver.clear_faults()
    put_on_bus(tmp_path, "0000:01:00.0", "active")
    assert [state.is_resting for state in (await host.prober.probe()).devices] == [False, False]


async def test_beszel_1522_while_the_only_card_sleeps_nothing_of_it_is_open(
    host: Host, tmp_path: Path
) -> None:
    host.install()
    host.driver.add_gpu(pci_bus_id="00000000:01:00.0")
    put_on_bus(tmp_path, "0000:01:00.0", "active")
    host.make(deadline_s=PATIENCE_S, root=tmp_path)
    awake = await host.prober.probe()
    put_on_bus(tmp_path, "0000:01:00.0", "suspended")
    await host.prober.probe()
    host.driver.hang("*")
    host.driver.fault("init hang")
    asleep = await host.prober.probe()
    assert not asleep.is_hung
    assert (asleep.driver, asleep.num_devices) == (awake.driver, 1)
    assert (asleep.devices[0].info, asleep.devices[0].reading) == (awake.devices[0].info, None)
    assert asleep.devices[0].is_resting


async def test_dcgm_exporter_716_letting_go_ends_the_child_and_the_next_look_starts_another(
    host: Host,
) -> None:
    host.install()
    host.driver.add_gpu()
    await host.prober.probe()
    first = host.prober.child_pid
    assert await host.prober.let_go()
    assert host.prober.child_pid is None
    assert await host.prober.let_go(), "nothing is held"
    assert is_whole(await host.prober.probe())
    assert host.prober.child_pid != first


async def test_a_child_that_is_stuck_is_not_let_go_of(host: Host) -> None:
    host.install()
    host.make()
    host.driver.add_gpu()
    await host.probe_until(is_whole)
    stuck = host.prober.child_pid
    host.driver.hang("nvmlDeviceGetTemperature")
    await host.probe_until(lambda probe: probe.is_hung)
    assert not await host.prober.let_go()
    assert host.prober.child_pid == stuck


async def test_netdata_14522_a_driver_that_is_slow_to_close_is_waited_for(host: Host) -> None:
    host.install()
    host.make(deadline_s=PATIENCE_S)
    host.driver.add_gpu()
    await host.prober.probe()
    host.driver.delay("nvmlShutdown", 2.5)
    assert await host.prober.let_go()
    assert host.prober.child_pid is None
