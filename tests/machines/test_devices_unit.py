"""The unit that makes device nodes before the daemon, with a stand-in for NVIDIA's setuid program."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machines.fleet import Fleet, wait_until
from tests.machines.machine import Machine

pytestmark = [pytest.mark.machines, pytest.mark.timeout(600)]

MODPROBE = "/usr/bin/nvidia-modprobe"
CALLS = "/run/modprobe-calls"


@pytest.fixture(scope="module")
def machine(deb: Path) -> Iterator[Machine]:
    with Fleet(deb) as fleet:
        (machine,) = fleet.boot(nodes="bookworm")
        machine.install(deb)
        yield machine


def _minors(machine: Machine, *minors: int) -> None:
    """Let /proc list cards with these minor numbers, as the loaded driver does."""
    machine.run("mountpoint -q /proc/driver || mount -t tmpfs cards /proc/driver; rm -rf /proc/driver/*")
    for slot, minor in enumerate(minors, start=1):
        machine.write(
            f"/proc/driver/nvidia/gpus/0000:{slot:02x}:00.0/information",
            f"Model: \t\t NVIDIA L40S\nIRQ:   \t\t 18\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n",
        )


def test_unit_is_skipped_without_the_program_and_the_daemon_starts(machine: Machine) -> None:
    assert machine.run("systemctl show --value -p ConditionResult gpumesh-devices").stdout == "no\n"
    assert machine.run("systemctl is-active gpumesh").stdout == "active\n"


def test_a_node_is_asked_for_each_card_that_the_driver_lists(machine: Machine) -> None:
    machine.write(MODPROBE, f'#!/bin/sh\necho "$@" >>{CALLS}\n', 0o755)
    _minors(machine, 0, 12)
    machine.run("systemctl start gpumesh-devices")
    assert machine.run(f"cat {CALLS}").stdout == "-u\n-c 0\n-c 12\n"


def test_a_host_without_the_driver_is_no_failed_unit(machine: Machine) -> None:
    machine.write(MODPROBE, "#!/bin/sh\nexit 1\n", 0o755)
    machine.run("systemctl start gpumesh-devices")
    assert machine.run("systemctl show --value -p Result gpumesh-devices").stdout == "success\n"


def test_a_driver_that_hangs_while_it_loads_does_not_keep_the_daemon_from_starting(machine: Machine) -> None:
    machine.write(MODPROBE, "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n", 0o755)
    machine.run("systemctl stop gpumesh && systemctl start --no-block gpumesh")

    def is_active() -> bool:
        return machine.run("systemctl is-active gpumesh", check=False).stdout == "active\n"

    took_s = wait_until(is_active, 60, "the daemon runs beside a hung driver")
    print(f"the daemon ran {took_s:.1f} s after its start, beside a hung driver")
    assert machine.run("systemctl show --value -p Result gpumesh-devices").stdout == "timeout\n"
