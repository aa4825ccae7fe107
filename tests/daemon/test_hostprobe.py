from __future__ import annotations

from pathlib import Path

import pytest

from gpumesh.daemon import hostprobe
from gpumesh.daemon.hostprobe import RETRY_S, HostProber
from gpumesh.health.containers import Containers
from gpumesh.health.hostprobe import HostProbe

PRINTS = "#!/bin/sh\necho NVIDIA Container Toolkit CLI version {}\necho commit: 1\necho x >> {}\n"


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def toolkit(root: Path, content: str) -> Path:
    path = write(root / "usr/bin/nvidia-ctk", content)
    path.chmod(0o755)
    return path


def num_runs(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


async def test_a_host_is_read_from_its_root(tmp_path: Path) -> None:
    write(tmp_path / "proc/sys/kernel/osrelease", "6.1.0-18-amd64\n")
    write(tmp_path / "etc/os-release", 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    write(tmp_path / "sys/module/nouveau/refcnt", "0")
    toolkit(tmp_path, PRINTS.format("1.14.3", tmp_path / "log"))
    assert await HostProber(tmp_path, ask_clock=lambda: True).probe(0) == HostProbe(
        kernel="6.1.0-18-amd64",
        os="Debian GNU/Linux 12 (bookworm)",
        toolkit_version="1.14.3",
        is_nouveau_loaded=True,
        is_clock_synchronised=True,
        containers=Containers(),
    )


async def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert await HostProber(tmp_path / "none", ask_clock=lambda: None).probe(0) == HostProbe()


async def test_a_toolkit_that_is_not_there_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    (tmp_path / "sys/module").mkdir(parents=True)
    probe = await HostProber(tmp_path).probe(0)
    assert probe.toolkit_version == ""
    assert probe.is_nouveau_loaded is False


async def test_the_toolkit_is_asked_once_until_its_file_changes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    toolkit(tmp_path, PRINTS.format("1.14.3", log))
    prober = HostProber(tmp_path)
    for now in range(5):
        assert (await prober.probe(now)).toolkit_version == "1.14.3"
    assert num_runs(log) == 1
    toolkit(tmp_path, PRINTS.format("1.17.4-upgraded", log))
    assert (await prober.probe(6)).toolkit_version == "1.17.4-upgraded"
    assert num_runs(log) == 2
    (tmp_path / "usr/bin/nvidia-ctk").unlink()
    assert (await prober.probe(7)).toolkit_version == ""


async def test_a_toolkit_that_hangs_is_unknown_and_not_asked_with_every_look(tmp_path: Path) -> None:
    log = tmp_path / "log"
    toolkit(tmp_path, f"#!/bin/sh\necho x >> {log}\nexec sleep 60\n")
    prober = HostProber(tmp_path, deadline_s=1.5)
    assert (await prober.probe(0)).toolkit_version is None
    assert (await prober.probe(RETRY_S - 1)).toolkit_version is None
    assert num_runs(log) == 1
    assert (await prober.probe(RETRY_S)).toolkit_version is None
    assert num_runs(log) == 2


@pytest.mark.parametrize("content", ["#!/bin/sh\nexit 3\n", "not a program", "#!/bin/sh\necho nonsense\n"])
async def test_a_toolkit_that_says_no_version_is_unknown(tmp_path: Path, content: str) -> None:
    toolkit(tmp_path, content)
    assert (await HostProber(tmp_path).probe(0)).toolkit_version is None


async def test_a_toolkit_that_floods_is_cut_off(tmp_path: Path) -> None:
    toolkit(tmp_path, "#!/bin/sh\nexec yes CLI version 1.14.3\n")
    assert (await HostProber(tmp_path).probe(0)).toolkit_version == "1.14.3"
    assert hostprobe.MAX_BYTES == 64 * 1024
