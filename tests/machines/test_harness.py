"""What the other tests rely on: machines boot, talk, lose packets and power as real ones do."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machines.fleet import Fleet
from tests.machines.machine import CommandFailedError, Machine

pytestmark = [pytest.mark.machines, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def machines(deb: Path) -> Iterator[list[Machine]]:
    with Fleet(deb) as fleet:
        started_at = time.monotonic()
        booted = fleet.boot(north="bookworm", east="bookworm", south="trixie")
        print(f"three machines booted in {time.monotonic() - started_at:.1f} s")
        yield booted


def _answers(asker: Machine, asked: Machine, num_pings: int = 1) -> int:
    """Count the answers to datagrams that `asker` sends to an echo on `asked`, one after another."""
    asked.run("systemctl stop echo.service; systemctl reset-failed echo.service", check=False)
    asked.run(
        "systemd-run --quiet --unit=echo python3 -c '"
        'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 7000))\n'
        "while True: s.sendto(*s.recvfrom(64))'"
    )
    asked.run(
        "for i in $(seq 100); do ss -Hlun 'sport = :7000' | grep -q . && exit 0; sleep 0.1; done; exit 1"
    )
    count = asker.run(
        "python3 -c '"
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.2); n = 0\n"
        f"for i in range({num_pings}):\n"
        f'    s.sendto(b"x", ("{asked.address}", 7000))\n'
        "    try: s.recv(64); n += 1\n"
        "    except OSError: pass\n"
        "print(n)'"
    )
    return int(count.stdout)


def test_machines_have_their_own_names_addresses_and_ids(machines: list[Machine]) -> None:
    facts = [
        m.run("hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id").stdout.split()
        for m in machines
    ]
    assert [name for name, _, _ in facts] == ["north", "east", "south"]
    assert len({machine_id for _, machine_id, _ in facts}) == 3
    assert len({boot_id for _, _, boot_id in facts}) == 3
    assert len({m.address for m in machines}) == 3
    for machine in machines:
        assert machine.port.mac in machine.run("ip link show eth0").stdout


def test_each_suite_runs_its_own_python(machines: list[Machine]) -> None:
    versions = {
        m.suite: m.run("python3 -c 'import sys; print(*sys.version_info[:2])'").stdout for m in machines
    }
    assert versions == {"bookworm": "3 11\n", "trixie": "3 13\n"}


def test_a_service_survives_the_end_of_its_namesake_on_another_machine(
    machines: list[Machine],
) -> None:
    north, east, _ = machines
    for machine in (north, east):
        machine.run("systemd-run --quiet --unit=idle sleep infinity")
    north.run("systemctl kill --signal=KILL idle.service")
    assert east.run("systemctl is-active idle.service").stdout == "active\n"


def test_a_pulled_cable_silences_a_machine_until_healed(machines: list[Machine]) -> None:
    north, east, south = machines
    north.cut_network()
    try:
        assert _answers(north, south) == 0
        assert "NO-CARRIER" in north.run("ip link show eth0").stdout
        assert _answers(east, south) == 1
    finally:
        north.heal()
    assert _answers(north, south, num_pings=20) > 0


def test_loss_takes_about_its_share_of_the_packets(machines: list[Machine]) -> None:
    north, _, south = machines
    south.drop_percent(50)
    try:
        # Binomial, 60 trials at one half: outside these bounds once in some ten million runs.
        assert 10 <= _answers(north, south, num_pings=60) <= 50
    finally:
        south.heal()
    assert _answers(north, south, num_pings=20) == 20


def test_dropping_is_one_way_and_only_from_those_named(machines: list[Machine]) -> None:
    north, east, south = machines
    south.drop_from(north)
    try:
        assert _answers(north, south) == 0
        assert _answers(east, south) == 1
    finally:
        south.heal()


def test_a_power_cut_keeps_disk_and_address_but_nothing_that_ran(machines: list[Machine]) -> None:
    machine = machines[1]
    machine.write("/var/lib/kept", "on disk")
    machine.write("/run/lost", "in memory")
    boot_id = machine.run("cat /proc/sys/kernel/random/boot_id").stdout
    machine.power_cut()
    machine.start()
    machine.wait_until_booted()
    assert machine.run("cat /var/lib/kept").stdout == "on disk"
    assert machine.run("test -e /run/lost", check=False).returncode == 1
    assert machine.run("cat /proc/sys/kernel/random/boot_id").stdout != boot_id
    assert machine.address in machine.run("ip address show eth0").stdout


def test_an_orderly_shutdown_lets_services_stop_first(machines: list[Machine]) -> None:
    machine = machines[1]
    stop = "sh -c 'echo stopped >/var/lib/farewell'"
    machine.run(f'systemd-run --quiet -p ExecStop="{stop}" --unit=polite sleep infinity')
    machine.shut_down()
    machine.start()
    machine.wait_until_booted()
    assert machine.run("cat /var/lib/farewell").stdout == "stopped\n"


def test_a_paused_machine_does_nothing_until_resumed(machines: list[Machine]) -> None:
    machine = machines[2]
    machine.run(
        "systemd-run --quiet --unit=counter sh -c 'while :; do echo tick >>/run/ticks; sleep 0.05; done';"
        "while ! test -s /run/ticks; do sleep 0.1; done"
    )
    ticks = Path(f"/proc/{machine.pid1}/root/run/ticks")
    machine.pause()
    try:
        before = ticks.stat().st_size
        time.sleep(1)
        assert ticks.stat().st_size == before
    finally:
        machine.resume()
    machine.run(
        f"while test $(stat -c %s /run/ticks) -le {before}; do sleep 0.1; done; systemctl stop counter"
    )


def test_a_failed_command_names_machine_and_output(machines: list[Machine]) -> None:
    with pytest.raises(CommandFailedError, match=r"(?s)north: .*no such thing"):
        machines[0].run("echo no such thing >&2; exit 3")
