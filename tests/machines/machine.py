"""One machine: a root file system with a disk of its own, booted by systemd-nspawn, on a switch's port."""

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.machines.leftovers import cgroup_hierarchies, remove_cgroup
from tests.machines.network import Port
from tests.machines.rootfs import RootFs

BOOT_LIMIT_S = 120.0
_ENVIRONMENT = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
    "DEBIAN_FRONTEND=noninteractive",
)


class CommandFailedError(AssertionError):
    """A command inside a machine ended with an unexpected status; the message has its output."""


class Machine:
    """A booted machine. Its disk and its address outlive a power cut; `close` ends and removes both.

    Processes share this host's kernel, so all machines have the same DMI product UUID, as cloned virtual
    machines do. MAC address, machine id and boot id are each machine's own.
    """

    def __init__(self, name: str, root: RootFs, port: Port, directory: Path, unit_name: str) -> None:
        self.name = name
        self.suite = root.suite
        self.port = port
        self.address = port.address
        self._directory = directory
        self._console = directory / "console"
        self._mountpoint = directory / "root"
        self._cgroups = [hierarchy / unit_name for hierarchy in cgroup_hierarchies()]
        self._process: subprocess.Popen[bytes] | None = None
        self.pid1 = 0
        self._attach_disk(root)

    def start(self) -> None:
        """Switch the power on, from the main thread; `wait_until_booted` tells when it can be used.

        Each machine gets control groups of its own: without them, machines started by one process would
        share theirs and end each other's services. If this process dies, so does the machine.
        """
        assert self._process is None, f"{self.name} is on already"
        for cgroup in self._cgroups:
            cgroup.mkdir(exist_ok=True)
        enter = "".join(f"echo $$ >{cgroup}/cgroup.procs; " for cgroup in self._cgroups)
        nspawn = [
            *("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--console=pipe"),
            # With the signal for a parent's death: a test run that is killed takes its machines along.
            "--kill-signal=SIGKILL",
            *(f"--directory={self._mountpoint}", f"--machine={self.name}"),
            f"--network-namespace-path=/run/netns/{self.port.netns}",
            # A real host may read its kernel's log and ask whether its clock is synchronised.
            *("--capability=CAP_SYSLOG", "--bind=/dev/kmsg", "--system-call-filter=adjtimex clock_adjtime"),
        ]
        with self._console.open("ab") as console:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "sh", "-ec", f'{enter}exec "$@"', "sh", *nspawn],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_booted(self) -> None:
        """Return when systemd has started everything; a failed unit is an error that names it."""
        deadline = time.monotonic() + BOOT_LIMIT_S
        while time.monotonic() < deadline:
            if self._find_pid1():
                state = self.run("systemctl is-system-running --wait", check=False).stdout.strip()
                if state == "running":
                    return
                if state == "degraded":
                    raise CommandFailedError(
                        f"{self.name}: {self.run('systemctl --failed --no-pager').stdout}"
                    )
            time.sleep(0.1)
        raise TimeoutError(f"{self.name} did not boot in {BOOT_LIMIT_S:.0f} s:\n{self.console()}")

    def power_cut(self) -> None:
        """End everything on the machine at once, as when the plug is pulled; `start` boots it again."""
        if self._process is None:
            return
        if self._find_pid1():
            with suppress(ProcessLookupError):
                os.kill(self.pid1, signal.SIGKILL)
        else:
            self._process.kill()
        self._wait_until_off(limit_s=30)

    def shut_down(self, limit_s: float = 60) -> None:
        """Switch the machine off the orderly way: every service is stopped first."""
        # systemd's own signal for poweroff.target.
        os.kill(self.pid1, signal.SIGRTMIN + 4)
        self._wait_until_off(limit_s)

    def pause(self) -> None:
        """Stop every process where it is, as a suspended virtual machine; needs cgroup v2."""
        self._set_frozen(frozen=True)

    def resume(self) -> None:
        """Let a paused machine go on."""
        self._set_frozen(frozen=False)

    def run(
        self, command: str, *, check: bool = True, timeout_s: float = 120, stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command as root inside; its error raises `CommandFailedError` unless `check` is off."""
        done = subprocess.run(
            ["nsenter", "--target", str(self.pid1), "--all", "env", "-i", *_ENVIRONMENT, "sh", "-c", command],
            input=stdin or b"",
            capture_output=True,
            check=False,
            timeout=timeout_s,
        )
        result = subprocess.CompletedProcess(
            command,
            done.returncode,
            done.stdout.decode(errors="replace"),
            done.stderr.decode(errors="replace"),
        )
        if check and result.returncode != 0:
            raise CommandFailedError(
                f"{self.name}: {command!r} ended with {result.returncode}\n{result.stdout}{result.stderr}"
            )
        return result

    def copy_in(self, source: Path, destination: str, mode: int = 0o644) -> None:
        """Put a file into the machine, with the folders above it, owned by root."""
        self.write(destination, source.read_bytes(), mode)

    def write(self, destination: str, content: bytes | str, mode: int = 0o644) -> None:
        """Put content into a file of the machine: in one step, so that no reader sees half of it."""
        data = content.encode() if isinstance(content, str) else content
        unfinished = f"{destination}.harness"
        self.run(
            f"install -D -m {mode:o} /dev/stdin {unfinished} && mv {unfinished} {destination}", stdin=data
        )

    def install(self, deb: Path) -> None:
        """Install or upgrade a package with apt, which finds its dependencies or fails."""
        self.copy_in(deb, f"/root/{deb.name}")
        self.run(f"apt-get install -y ./root/{deb.name}", timeout_s=300)

    def get_json(self, path: str) -> Any:
        """Ask the daemon's HTTP interface from inside the machine."""
        return json.loads(self.run(f"curl -sS --max-time 10 'http://127.0.0.1:9477{path}'").stdout)

    def journal(self, unit: str = "gpumesh") -> str:
        """Return what a unit has logged since the machine's last boot."""
        return self.run(f"journalctl --boot --no-pager --output=short-precise --unit={unit}").stdout

    def console(self) -> str:
        """Return what the machine wrote to its console, last boots included."""
        return self._console.read_text(errors="replace") if self._console.exists() else ""

    def cut_network(self) -> None:
        """Pull the network cable; `heal` plugs it in."""
        self.port.unplug()

    def drop_percent(self, percent: int) -> None:
        """Lose this share of the packets that arrive."""
        self.port.drop_percent(percent)

    def drop_from(self, *others: "Machine") -> None:
        """Hear nothing from these machines, which still hear this one."""
        self.port.drop_from(other.address for other in others)

    def heal(self) -> None:
        """Undo `cut_network`, `drop_percent` and `drop_from`."""
        self.port.heal()

    def close(self) -> None:
        """Cut the power and remove the machine's disk."""
        self.power_cut()
        subprocess.run(["umount", self._mountpoint], check=False, capture_output=True)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _attach_disk(self, root: RootFs) -> None:
        layers = {name: self._directory / name for name in ("upper", "work")}
        for folder in (*layers.values(), self._mountpoint):
            folder.mkdir(parents=True)
        options = f"lowerdir={root.path},upperdir={layers['upper']},workdir={layers['work']}"
        subprocess.run(
            ["mount", "-t", "overlay", f"gpumesh-{self.name}", "-o", options, self._mountpoint], check=True
        )
        (self._mountpoint / "etc/hostname").write_text(f"{self.name}\n")
        (self._mountpoint / "etc/hosts").write_text(f"127.0.0.1 localhost\n{self.address} {self.name}\n")

    def _find_pid1(self) -> bool:
        """Find the machine's first process: the child of nspawn that is number 1 in its own namespace."""
        assert self._process is not None, f"{self.name} is off"
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.name} ended by itself:\n{self.console()}")
        self.pid1 = 0
        with suppress(FileNotFoundError, ProcessLookupError):
            children = (
                Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            )
            for child in children:
                status = Path(f"/proc/{child}/status").read_text()
                numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
                if len(numbers) > 1 and numbers[-1] == "1":
                    self.pid1 = int(child)
        return self.pid1 != 0

    def _wait_until_off(self, limit_s: float) -> None:
        assert self._process is not None
        try:
            self._process.wait(limit_s)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait(10)
            self._process = None
            self.pid1 = 0
            for cgroup in self._cgroups:
                remove_cgroup(cgroup)

    def _set_frozen(self, *, frozen: bool) -> None:
        switches = [cgroup / "payload/cgroup.freeze" for cgroup in self._cgroups]
        switch = next(path for path in switches if path.exists())
        switch.write_text("1" if frozen else "0")
