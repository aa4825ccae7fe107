"""The health check program that Slurm runs, with a scontrol and a gpumesh that say what the test wants."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "integrations/slurm-health-check"
SHOWN = "NodeName=gpu01 Arch=x86_64 State={} ThreadsPerCore=2 BootTime=2026-11-30T06:00:00 {}"


@dataclass(frozen=True)
class Node:
    folder: Path

    def is_in(self, state: str, reason: str = "") -> None:
        said = f"Reason={reason} [root@2026-11-30T06:41:00]" if reason else ""
        (self.folder / "shown").write_text(SHOWN.format(state, said))

    def check(self, code: int, line: str) -> list[str]:
        """Run the program with a gpumesh that ends so; returns what scontrol was asked to change."""
        self._program("gpumesh", f"echo '{line}'; exit {code}")
        told = self.folder / "told"
        told.unlink(missing_ok=True)
        self._program(
            "scontrol",
            f'case "$*" in *show*) cat {self.folder}/shown;; *) printf "%s\\n" "$@" > {told};; esac',
        )
        self._program("logger", f'printf "%s\\n" "$@" > {self.folder}/logged')
        environ = {"PATH": f"{self.folder}:{os.environ['PATH']}", "SLURMD_NODENAME": "gpu01"}
        subprocess.run([SCRIPT], env=environ, check=True, timeout=60)
        return told.read_text().splitlines() if told.exists() else []

    def _program(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_sick_node_is_drained_with_the_reason(node: Node) -> None:
    node.is_in("MIXED")
    assert node.check(1, "gpumesh: unhealthy, GPU 1 is lost") == [
        "update",
        "NodeName=gpu01",
        "State=drain",
        "Reason=gpumesh: unhealthy, GPU 1 is lost",
    ]


def test_a_healthy_node_is_left_alone(node: Node) -> None:
    node.is_in("IDLE")
    assert node.check(0, "gpumesh: healthy, 8 GPUs") == []


def test_a_node_that_is_well_again_is_resumed(node: Node) -> None:
    node.is_in("IDLE+DRAIN", "gpumesh: unhealthy, GPU 1 is lost")
    assert node.check(0, "gpumesh: healthy, 8 GPUs") == ["update", "NodeName=gpu01", "State=resume"]


def test_another_persons_drain_is_never_taken_back_nor_reworded(node: Node) -> None:
    node.is_in("IDLE+DRAIN", "new power supply")
    assert node.check(0, "gpumesh: healthy, 8 GPUs") == []
    assert node.check(1, "gpumesh: unhealthy, GPU 1 is lost") == []


@pytest.mark.parametrize("code", [2, 3, 124, 127])
def test_a_check_that_cannot_tell_changes_nothing_and_is_logged(node: Node, code: int) -> None:
    node.is_in("IDLE+DRAIN", "gpumesh: unhealthy")
    assert node.check(code, "no such file") == []
    assert f"(exit {code})" in (node.folder / "logged").read_text()
