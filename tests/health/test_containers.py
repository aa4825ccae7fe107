from __future__ import annotations

import pytest

from gpumesh.health.containers import cdi_devices, containerd_way, docker_way, podman_way

CDI_YAML = """\
---
cdiVersion: 0.5.0
containerEdits:
    deviceNodes:
        - path: /dev/nvidiactl
    hooks:
        - args:
            - nvidia-cdi-hook
            - name
          hookName: createContainer
devices:
    - containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
              name: not-this-one
      name: "0"
    - name: GPU-0c8308f5-cf24-73bd-4287-9a5f084c58af
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
    - containerEdits:
        deviceNodes: []
      name: all # every card
kind: nvidia.com/gpu
"""
CONTAINERD = """\
version = 2
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{}]
runtime_type = "io.containerd.runc.v2"
"""


def test_the_devices_of_a_specification_as_the_toolkit_writes_it() -> None:
    assert cdi_devices(CDI_YAML) == ("0", "GPU-0c8308f5-cf24-73bd-4287-9a5f084c58af", "all")


def test_a_list_at_the_margin_and_a_json_specification_are_read_alike() -> None:
    flat = "kind: nvidia.com/gpu\ndevices:\n- name: '0'\n  containerEdits:\n    env:\n    - name: X\n"
    assert cdi_devices(flat) == ("0",)
    assert cdi_devices('{"kind": "nvidia.com/gpu", "devices": [{"name": "0"}, {"name": "all"}]}') == (
        "0",
        "all",
    )


def test_another_vendors_specification_has_none_of_our_devices() -> None:
    assert cdi_devices(CDI_YAML.replace("nvidia.com/gpu", "vendor.com/nic")) == ()
    assert cdi_devices('{"kind": "vendor.com/nic", "devices": [{"name": "0"}]}') == ()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"kind": "nvidia.com/gpu"}', "just text\n", "{" * 100_000]
)
def test_what_is_no_specification_is_unknown(content: str) -> None:
    assert cdi_devices(content) is None


@pytest.mark.parametrize(
    ("content", "has_hook", "has_cdi", "way"),
    [
        ('{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}', False, False, "nvidia runtime"),
        ('{"default-runtime": "nvidia"}', False, False, "nvidia runtime"),
        ('{"features": {"cdi": true}}', False, True, "CDI"),
        ('{"features": {"cdi": true}}', False, False, ""),
        ("", True, False, "--gpus by its hook"),
        ("", False, False, ""),
        ('{"runtimes": {"runc": {}}}', False, True, ""),
        ('{"runtimes": ', False, False, None),
        ("[]", True, True, None),
    ],
)
def test_how_docker_is_set_up(content: str, *, has_hook: bool, has_cdi: bool, way: str | None) -> None:
    assert docker_way(content, has_hook=has_hook, has_cdi=has_cdi) == way


def test_how_containerd_is_set_up() -> None:
    assert containerd_way([CONTAINERD.format("nvidia")], has_cdi=False) == "nvidia runtime"
    assert containerd_way([CONTAINERD.format("runc")], has_cdi=True) == ""
    imported = ["", CONTAINERD.format("nvidia")]
    assert containerd_way(imported, has_cdi=False) == "nvidia runtime"
    cdi = '[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true\n'
    assert containerd_way([cdi], has_cdi=True) == "CDI"
    assert containerd_way([cdi], has_cdi=False) == ""
    assert containerd_way(["[plugins"], has_cdi=False) is None


def test_how_podman_is_set_up() -> None:
    assert podman_way(has_hook=False, has_cdi=True) == "CDI"
    assert podman_way(has_hook=True, has_cdi=False) == "OCI hook"
    assert podman_way(has_hook=False, has_cdi=False) == ""
