"""The package as Debian's users meet it: installed, upgraded, removed and purged with apt."""

import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machines.fleet import REPOSITORY, Fleet, build_package
from tests.machines.machine import Machine

pytestmark = [pytest.mark.machines, pytest.mark.timeout(600)]

UBUNTU_22_04 = REPOSITORY / ".ci/ubuntu-22.04.txt"

# What `systemd-analyze security` gives the unit: 10 is no protection at all, below 3 is "OK".
EXPOSURE_LIMIT = 3.0

_IMPORT_EVERYTHING = """
import pkgutil, sys
sys.path[:0] = ["/usr/lib/gpumesh", "/usr/lib/gpumesh/vendor"]
import gpumesh
names = [m.name for m in pkgutil.walk_packages(gpumesh.__path__, "gpumesh.")]
for name in names:
    if not name.endswith("__main__"):
        __import__(name)
print(len(names))
"""

_WHICH_BINDINGS = """
import runpy, subprocess, sys
runpy.run_path("/usr/bin/gpumesh")
import pynvml
print(pynvml.__file__)
subprocess.run([sys.executable, "-c", "import pynvml; print(pynvml.__file__)"], check=True)
"""


@pytest.fixture(scope="module")
def fleet(deb: Path) -> Iterator[Fleet]:
    with Fleet(deb) as fleet:
        fleet.boot(bookworm="bookworm", trixie="trixie")
        yield fleet


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def machine(request: pytest.FixtureRequest, fleet: Fleet, deb: Path) -> Machine:
    """Return a machine on which the package has just been installed."""
    machine = fleet.machines[request.param]
    machine.install(deb)
    return machine


def _stat(machine: Machine, path: str) -> str:
    return machine.run(f"stat -c '%U:%G %a' {path}").stdout.strip()


def test_lintian_finds_no_errors_or_warnings(deb: Path) -> None:
    found = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "error,warning", deb],
        check=False,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout
    assert found.stdout == ""


def test_bindings_are_the_pinned_ones_and_come_without_their_example(deb: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--extract", deb, tmp_path], check=True)
    pinned = re.search(r"==([0-9.]+)", (REPOSITORY / "packaging/deb/vendor.txt").read_text())
    assert pinned is not None
    wheel = REPOSITORY / f".cache/vendor/nvidia_ml_py-{pinned[1]}-py3-none-any.whl"
    original = zipfile.ZipFile(wheel).read("pynvml.py")
    vendored = list((tmp_path / "usr/lib/gpumesh/vendor").iterdir())
    assert [path.name for path in vendored] == ["pynvml.py"]
    assert vendored[0].read_bytes() == original


def test_dependencies_accept_the_versions_of_ubuntu_22_04(deb: Path) -> None:
    field = subprocess.run(
        ["dpkg-deb", "--field", deb, "Depends"], check=True, capture_output=True, text=True
    )
    wanted = dict(re.findall(r"python3-([a-z-]+) \(>= ([0-9.]+)\)", field.stdout))
    shipped = dict(re.findall(r"^([a-z-]+)==([0-9.]+)", UBUNTU_22_04.read_text(), re.MULTILINE))
    assert len(wanted) == 5
    for name, version in wanted.items():
        subprocess.run(["dpkg", "--compare-versions", shipped[name], "ge", version], check=True)


def test_service_runs_enabled_after_installation_as_its_own_user(machine: Machine) -> None:
    assert machine.run("systemctl is-active gpumesh").stdout == "active\n"
    assert machine.run("systemctl is-enabled gpumesh").stdout == "enabled\n"
    assert machine.run("ps -o user= $(systemctl show --value -p MainPID gpumesh)").stdout == "gpumesh\n"
    assert machine.run("systemctl show --value -p NRestarts gpumesh").stdout == "0\n"


def test_installation_brings_no_configuration_and_needs_none(machine: Machine) -> None:
    assert machine.run("ls -A /etc/gpumesh").stdout == ""
    assert machine.get_json("/v1/status")


def test_folders_are_closed_to_strangers_and_open_to_the_group(machine: Machine) -> None:
    assert _stat(machine, "/etc/gpumesh") == "root:gpumesh 750"
    assert _stat(machine, "/var/lib/gpumesh") == "gpumesh:gpumesh 750"
    assert _stat(machine, "/run/gpumesh") == "gpumesh:gpumesh 750"


def test_every_module_imports_with_nothing_but_the_declared_dependencies(machine: Machine) -> None:
    machine.write("/root/import_everything.py", _IMPORT_EVERYTHING)
    assert int(machine.run("python3 -I /root/import_everything.py").stdout) > 0


def test_stray_bindings_beside_the_system_python_are_not_taken_for_ours(machine: Machine) -> None:
    stray = machine.run("python3 -c 'import site; print(site.getsitepackages()[0])'").stdout.strip()
    assert stray.startswith("/usr/local/")
    machine.write(f"{stray}/pynvml.py", "raise SystemExit('stray')")
    machine.write("/root/which_bindings.py", _WHICH_BINDINGS)
    try:
        found = machine.run("cd /root && python3 -I which_bindings.py").stdout.split()
    finally:
        machine.run(f"rm {stray}/pynvml.py")
    assert found == ["/usr/lib/gpumesh/vendor/pynvml.py"] * 2


def test_units_verify_and_exposure_is_low(machine: Machine) -> None:
    verified = machine.run("systemd-analyze verify --man=no gpumesh.service gpumesh-devices.service")
    assert verified.stdout + verified.stderr == ""
    overall = machine.run("systemd-analyze security --no-pager gpumesh.service").stdout.splitlines()[-1]
    print(f"{machine.name}: {overall}")
    exposure = re.search(r"([0-9.]+) \w+", overall)
    assert exposure is not None
    assert float(exposure[1]) < EXPOSURE_LIMIT


def test_udev_understands_the_rule_for_a_late_driver(fleet: Fleet) -> None:
    # Debian 12's udev cannot verify yet.
    machine = fleet.machines["trixie"]
    machine.copy_in(REPOSITORY / "systemd/gpumesh.rules", "/root/gpumesh.rules")
    assert "Success: 1\n" in machine.run("udevadm verify /root/gpumesh.rules").stdout


def test_reload_keeps_the_process(machine: Machine) -> None:
    show = "systemctl show --value -p MainPID gpumesh"
    before = machine.run(show).stdout
    machine.run("systemctl reload gpumesh")
    assert machine.run(f"systemctl is-active gpumesh && {show}").stdout == f"active\n{before}"


def test_unit_lets_the_daemon_read_the_kernel_log_and_the_clock_state(machine: Machine) -> None:
    unit = machine.run("systemctl cat gpumesh").stdout
    sandbox = [
        line
        for line in unit.split("[Service]")[1].split("[Install]")[0].splitlines()
        if re.match(
            r"(Ambient|Capability|Device|Lock|Memory|NoNew|Private|Protect|Restrict|Supp|System|User|Group)",
            line,
        )
    ]
    options = " ".join(f"-p '{line}'" for line in sandbox)
    probe = (
        "import ctypes, os, pwd; "
        "assert os.read(os.open('/dev/kmsg', os.O_RDONLY | os.O_NONBLOCK), 8192); "
        "clock = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(512)); "
        "print(pwd.getpwuid(os.getuid()).pw_name, clock >= 0)"
    )
    assert (
        machine.run(f'systemd-run --quiet --pipe --wait {options} python3 -c "{probe}"').stdout
        == "gpumesh True\n"
    )


def test_a_killed_daemon_comes_back_and_its_prober_is_asked_not_killed(machine: Machine) -> None:
    show = "systemctl show --value -p MainPID gpumesh"
    before = machine.run(show).stdout
    machine.run("systemctl kill --signal=KILL --kill-who=main gpumesh")
    machine.run(
        f"for i in $(seq 300); do systemctl -q is-active gpumesh && test $({show}) != {before.strip()}"
        " && exit 0; sleep 0.1; done; exit 1"
    )
    assert "Killing process" not in machine.journal()


def test_upgrade_keeps_configuration_and_state_and_restarts(
    machine: Machine, deb: Path, tmp_path: Path
) -> None:
    newer = build_package(tmp_path, revision="upgrade")
    machine.write("/etc/gpumesh/local.toml", "mine", 0o640)
    machine.run("echo mine >/var/lib/gpumesh/local")
    before = machine.run("systemctl show --value -p MainPID gpumesh").stdout
    machine.install(newer)
    assert machine.run("dpkg-query -W -f '${Version}' gpumesh").stdout.endswith("+upgrade")
    assert machine.run("cat /etc/gpumesh/local.toml /var/lib/gpumesh/local").stdout == "minemine\n"
    assert machine.run("systemctl is-active gpumesh").stdout == "active\n"
    assert machine.run("systemctl show --value -p MainPID gpumesh").stdout != before


def test_a_disabled_service_stays_disabled_through_an_upgrade(machine: Machine, deb: Path) -> None:
    machine.run("systemctl disable --now gpumesh")
    machine.run(f"apt-get install -y --reinstall --allow-downgrades ./root/{deb.name}")
    assert machine.run("systemctl is-enabled gpumesh", check=False).stdout == "disabled\n"
    machine.run("systemctl enable --now gpumesh")


def test_removal_stops_the_service_and_keeps_configuration_and_state(machine: Machine) -> None:
    machine.write("/etc/gpumesh/local.toml", "mine", 0o640)
    machine.run("echo mine >/var/lib/gpumesh/local; apt-get remove -y gpumesh")
    assert machine.run("systemctl is-active gpumesh", check=False).stdout == "inactive\n"
    assert machine.run("pgrep -u gpumesh", check=False).stdout == ""
    assert machine.run("cat /etc/gpumesh/local.toml /var/lib/gpumesh/local").stdout == "minemine\n"
    assert machine.run("ls /usr/lib/gpumesh /usr/bin/gpumesh", check=False).returncode != 0


def test_purge_removes_configuration_and_state_but_not_the_user(machine: Machine) -> None:
    machine.run("apt-get purge -y gpumesh")
    for path in ("/etc/gpumesh", "/var/lib/gpumesh", "/run/gpumesh", "/usr/lib/gpumesh"):
        assert machine.run(f"test -e {path}", check=False).returncode == 1, path
    assert machine.run("id -un gpumesh").stdout == "gpumesh\n"
    assert machine.run("systemctl list-unit-files --no-legend | grep gpumesh", check=False).stdout == ""
