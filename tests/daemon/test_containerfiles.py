from __future__ import annotations

from pathlib import Path

from gpumesh.daemon.containerfiles import ContainerFiles
from gpumesh.daemon.walltime import is_clock_synchronised
from gpumesh.health.containers import Containers, Runtime
from tests.health.test_containers import CDI_YAML, CONTAINERD


def put(root: Path, name: str, content: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def test_a_host_without_runtimes_has_none(tmp_path: Path) -> None:
    (tmp_path / "usr").mkdir()
    assert ContainerFiles(tmp_path).read() == Containers()
    assert ContainerFiles(tmp_path / "none").read() is None


def test_docker_alone_is_docker_and_not_its_containerd(tmp_path: Path) -> None:
    put(tmp_path, "usr/bin/dockerd")
    put(tmp_path, "usr/bin/containerd")
    put(tmp_path, "etc/docker/daemon.json", '{"runtimes": {"nvidia": {}}}')
    assert ContainerFiles(tmp_path).read() == Containers((Runtime("docker", "nvidia runtime"),))


def test_containerd_counts_where_kubernetes_starts_on_it(tmp_path: Path) -> None:
    put(tmp_path, "usr/bin/containerd")
    put(tmp_path, "usr/bin/kubelet")
    put(tmp_path, "etc/containerd/config.toml", CONTAINERD.format("runc"))
    files = ContainerFiles(tmp_path)
    assert files.read() == Containers((Runtime("containerd", ""),))
    put(tmp_path, "etc/containerd/conf.d/99-nvidia.toml", CONTAINERD.format("nvidia"))
    assert files.read() == Containers((Runtime("containerd", "nvidia runtime"),))


def test_podman_finds_a_specification_in_either_place(tmp_path: Path) -> None:
    put(tmp_path, "usr/bin/podman")
    files = ContainerFiles(tmp_path)
    assert files.read() == Containers((Runtime("podman", ""),))
    put(tmp_path, "run/cdi/nvidia.yaml", CDI_YAML)
    put(tmp_path, "etc/cdi/again.yaml", CDI_YAML)
    found = files.read()
    assert found is not None
    assert found.runtimes == (Runtime("podman", "CDI"),)
    assert found.cdi_devices == ("0", "GPU-0c8308f5-cf24-73bd-4287-9a5f084c58af", "all")


def test_a_specification_of_ours_that_cannot_be_understood_is_unknown_and_others_are_passed_over(
    tmp_path: Path,
) -> None:
    put(tmp_path, "usr/bin/podman")
    put(tmp_path, "etc/cdi/vendor.yaml", "# of another vendor, written otherwise\n")
    files = ContainerFiles(tmp_path)
    read = files.read()
    assert read is not None
    assert read.cdi_devices == ()
    put(tmp_path, "etc/cdi/nvidia.json", '{"kind": "nvidia.com/gpu"')
    read = files.read()
    assert read is not None
    assert read.cdi_devices is None


def test_files_that_did_not_change_are_not_read_again(tmp_path: Path) -> None:
    put(tmp_path, "usr/bin/dockerd")
    files = ContainerFiles(tmp_path)
    assert files.read() is files.read()


def test_the_kernel_says_whether_its_clock_is_synchronised() -> None:
    assert is_clock_synchronised() in {True, False, None}
