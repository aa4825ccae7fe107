from __future__ import annotations

import pytest

from gpumesh.health.hostprobe import parse_os_release, parse_toolkit_version


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("NVIDIA Container Toolkit CLI version 1.14.3\ncommit: 53b24618a542025b\n", "1.14.3"),
        ("nvidia-ctk version 1.11.0\n", "1.11.0"),
        ("NVIDIA Container Toolkit CLI version 1.18.0-rc.1\ncommit: 1\n", "1.18.0-rc.1"),
        ("", None),
        ("Segmentation fault", None),
    ],
)
def test_the_toolkits_version_is_read_from_what_it_prints(output: str, version: str | None) -> None:
    assert parse_toolkit_version(output) == version


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ('ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n', "Debian GNU/Linux 12 (bookworm)"),
        ("PRETTY_NAME=Alpine\nID=alpine", "Alpine"),
        ("NAME=x", None),
        ('PRETTY_NAME=""', None),
    ],
)
def test_the_systems_name_is_read_from_os_release(content: str, name: str | None) -> None:
    assert parse_os_release(content) == name
